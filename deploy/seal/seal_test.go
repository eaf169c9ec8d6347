package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// newKey returns a new Ed25519 key in the format of OpenSSH.
func newKey(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return sshKey(t, private)
}

func sshKey(t *testing.T, private crypto.PrivateKey) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(private, "test")
	require.NoError(t, err)
	return string(pem.EncodeToMemory(block))
}

const (
	libcURL  = "pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=bookworm"
	libcSum  = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	imageSum = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

// release creates the files of a release, with a runner's image of this digest.
func release(t *testing.T, digest string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"vmop_1.2.3_amd64.deb": "a package", "install.yaml": "kind: Namespace\n",
		"vmrunner.cdx.json": `{"metadata": {"component": {"purl": "pkg:golang/vmop/cmd/vmrunner@v1.2.3"}},
			"components": [{"purl": "pkg:golang/std@1.26.0"}]}`,
		"runner.cdx.json": `{"metadata": {"component": {"purl": "pkg:oci/runner@sha256%3A` + digest + `?arch=amd64"}},
			"components": [{"purl": "` + libcURL + `", "hashes": [{"alg": "SHA-256", "content": "` + libcSum + `"}]}]}`,
	} {
		require.NoError(t, writeFile(dir, name, []byte(content)))
	}
	return dir
}

// sealed runs the command for a folder and returns its output.
func sealed(t *testing.T, dir string, env map[string]string, flags ...string) (string, error) {
	t.Helper()
	all := map[string]string{"SOURCE_DATE_EPOCH": "1700000000"}
	for name, value := range env {
		all[name] = value
	}
	var out strings.Builder
	err := runSeal(append(append([]string{"-root", "../..", "-version", "v1.2.3", "-commit", "c0ffee"}, flags...), dir),
		func(name string) string { return all[name] }, &out)
	return out.String(), err
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAReleaseWithoutAKeySaysThatItIsNotSigned(t *testing.T) {
	t.Parallel()
	dir := release(t, imageSum)
	out, err := sealed(t, dir, nil)
	require.NoError(t, err)
	require.Contains(t, out, "NOT SIGNED")
	require.Equal(t, []string{
		checksums, "install.yaml", provenance, "runner.cdx.json", "vmop_1.2.3_amd64.deb", "vmrunner.cdx.json",
	}, names(t, dir))

	for _, flags := range [][]string{nil, {"-check"}} {
		_, err = sealed(t, release(t, imageSum), map[string]string{"RELEASE_REQUIRE_SIGNATURE": "1"}, flags...)
		require.ErrorContains(t, err, "SIGNING_KEY is not set")
	}
}

// The same files and the same key produce the same seals, even if old seals exist.
func TestASealIsReproducible(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SIGNING_KEY": newKey(t)}
	one, other := release(t, imageSum), release(t, imageSum)
	out, err := sealed(t, one, map[string]string{"SIGNING_KEY": newKey(t)})
	require.NoError(t, err)
	require.Contains(t, out, "signed with the key SHA256:")
	for _, dir := range []string{one, other} {
		_, err := sealed(t, dir, env)
		require.NoError(t, err)
	}
	require.Contains(t, names(t, one), "vmop-runner-v1.2.3-amd64.sig.tar")
	require.Equal(t, names(t, other), names(t, one))
	for _, name := range names(t, one) {
		require.Equal(t, read(t, other, name), read(t, one, name), name)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}

// The provenance contains each file and image, and the sources of the build.
func TestProvenance(t *testing.T) {
	t.Parallel()
	dir := release(t, imageSum)
	_, err := sealed(t, dir, map[string]string{"BUILDER_ID": "https://ci.example.org"},
		"-registry", "registry.example/vmop", "-source", "git+https://example.org/vmop")
	require.NoError(t, err)
	var s statement
	require.NoError(t, json.Unmarshal([]byte(read(t, dir, provenance)), &s))
	require.Equal(t, "https://in-toto.io/Statement/v1", s.Type)
	require.Equal(t, "https://slsa.dev/provenance/v1", s.PredicateType)
	require.Equal(t, "https://ci.example.org", s.Predicate.RunDetails.Builder.ID)
	var subjects []string
	for _, r := range s.Subject {
		require.Len(t, r.Digest["sha256"], 64)
		subjects = append(subjects, r.Name)
	}
	require.Equal(t, []string{
		"install.yaml", "runner.cdx.json", "vmop_1.2.3_amd64.deb", "vmrunner.cdx.json",
		"registry.example/vmop/runner:v1.2.3-amd64",
	}, subjects)
	d := s.Predicate.BuildDefinition
	require.Equal(t, "v1.2.3", d.ExternalParameters["VERSION"])
	require.Equal(t, "1700000000", d.InternalParameters["SOURCE_DATE_EPOCH"])
	lock, err := hashNamed("../..", "go.sum")
	require.NoError(t, err)
	for _, want := range []resource{
		{Name: "source", URI: "git+https://example.org/vmop", Digest: map[string]string{"gitCommit": "c0ffee"}},
		{Name: "go.sum", Digest: sha256Digest(lock[0].sha256)},
		{URI: libcURL, Digest: sha256Digest(libcSum)},
	} {
		require.Contains(t, d.ResolvedDependencies, want)
	}
}

// A package without a checksum is an error, because the provenance would look complete.
func TestAPackageWithoutAChecksumIsRefused(t *testing.T) {
	t.Parallel()
	dir := release(t, imageSum)
	list := strings.Replace(read(t, dir, "runner.cdx.json"), "SHA-256", "MD5", 1)
	require.NoError(t, writeFile(dir, "runner.cdx.json", []byte(list)))
	_, err := sealed(t, dir, nil)
	require.ErrorContains(t, err, "the list of components has no SHA-256 checksum of "+libcURL)
}

// Keys of OpenSSH and of openssl are accepted, as text and as a file. An error doesn't contain the value, because it
// may be a key.
func TestSigningKeys(t *testing.T) {
	t.Parallel()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(sshKey(t, private)), 0o600))
	for _, value := range []string{
		file, sshKey(t, private), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	} {
		key, err := readKey(value)
		require.NoError(t, err)
		require.Equal(t, private, key.private)
	}

	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for value, want := range map[string]string{
		"b3BlbnNzaC1rZXk":                  "cannot read the file that SIGNING_KEY names: no such file or directory",
		string(pem.EncodeToMemory(locked)): "the key has a passphrase",
		sshKey(t, ec):                      "it is not an Ed25519 private key",
		"-----BEGIN PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END PRIVATE": "it is not an Ed25519 private key",
	} {
		_, err := readKey(value)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "b3Blbn")
	}
}

// twoArchitectures creates the files of a release with a runner's image for amd64 and arm64. content determines their
// digests.
func twoArchitectures(t *testing.T, content string) string {
	t.Helper()
	images := t.TempDir()
	amd64 := archive(t, filepath.Join(images, "vmop-runner-v1.2.3-amd64.tar"), content)
	arm64 := archive(t, filepath.Join(images, "vmop-runner-v1.2.3-arm64.tar"), content+", too")
	dir := release(t, amd64)
	require.NoError(t, os.CopyFS(dir, os.DirFS(images)))
	list := strings.NewReplacer(amd64, arm64, "arch=amd64\"}}", "arch=arm64\"}}").
		Replace(read(t, dir, "runner.cdx.json"))
	require.NoError(t, writeFile(dir, "runner-arm64.cdx.json", []byte(list)))
	return dir
}

// indexIn returns the index in an OCI archive.
func indexIn(t *testing.T, archive string) (index v1.IndexManifest) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "index.tar")
	require.NoError(t, os.WriteFile(file, []byte(archive), 0o600))
	top, err := readArchived(file, "index.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(top, &index))
	require.Len(t, index.Manifests, 1)
	require.Equal(t, types.OCIImageIndex, index.Manifests[0].MediaType)
	text, err := readArchived(file, "blobs/sha256/"+index.Manifests[0].Digest.Hex)
	require.NoError(t, err)
	require.Equal(t, index.Manifests[0].Digest.Hex, fmt.Sprintf("%x", sha256.Sum256(text)))
	index = v1.IndexManifest{}
	require.NoError(t, json.Unmarshal(text, &index))
	return index
}

// A release contains an index of the images of both architectures, which is in the provenance and has a signature.
func TestAnIndexJoinsTheArchitectures(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	seal := func(dir string) error {
		_, err := sealed(t, dir, map[string]string{"SIGNING_KEY": key}, "-registry", "registry.example/vmop")
		return err
	}
	dir := twoArchitectures(t, "a")
	require.NoError(t, seal(dir))
	index := indexIn(t, read(t, dir, "vmop-runner-v1.2.3.index.tar"))
	require.Len(t, index.Manifests, 2)
	for i, architecture := range []string{"amd64", "arm64"} {
		require.Equal(t, architecture, index.Manifests[i].Platform.Architecture)
		require.Equal(t, types.OCIManifestSchema1, index.Manifests[i].MediaType)
		require.Positive(t, index.Manifests[i].Size)
	}
	top, err := readArchived(filepath.Join(dir, "vmop-runner-v1.2.3.index.tar"), "index.json")
	require.NoError(t, err)
	var joined v1.IndexManifest
	require.NoError(t, json.Unmarshal(top, &joined))
	var s statement
	require.NoError(t, json.Unmarshal([]byte(read(t, dir, provenance)), &s))
	require.Contains(t, s.Subject, resource{
		Name: "registry.example/vmop/runner:v1.2.3", Digest: sha256Digest(joined.Manifests[0].Digest.Hex),
	})
	require.Contains(t, read(t, dir, "vmop-runner-v1.2.3.sig.tar"), joined.Manifests[0].Digest.String())

	again, other := twoArchitectures(t, "a"), twoArchitectures(t, "b")
	require.NoError(t, seal(again))
	require.Equal(t, read(t, dir, "vmop-runner-v1.2.3.index.tar"), read(t, again, "vmop-runner-v1.2.3.index.tar"))
	require.NoError(t, os.Rename(filepath.Join(other, "vmop-runner-v1.2.3-arm64.tar"),
		filepath.Join(again, "vmop-runner-v1.2.3-arm64.tar")))
	require.ErrorContains(t, seal(again), "build the release again", "the image of another build")
	require.NoError(t, os.Remove(filepath.Join(again, "vmop-runner-v1.2.3-arm64.tar")))
	require.ErrorContains(t, seal(again), "vmop-runner-v1.2.3-arm64.tar: no such file")
}
