package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // Alpine's format
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/tier"
)

func newPackageKey(t *testing.T, bits int) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// A release contains the public keys of its packages, which are always the same for a key. An error doesn't contain the
// key.
func TestPackageKeys(t *testing.T) {
	t.Parallel()
	key := newPackageKey(t, 2048)
	dir, again := release(t, imageSum), release(t, imageSum)
	for _, of := range []string{dir, again} {
		_, err := sealed(t, of, map[string]string{"PACKAGE_KEY": key})
		require.NoError(t, err)
	}
	for _, name := range []string{rpmKey, alpineKey} {
		require.Equal(t, read(t, dir, name), read(t, again, name))
		require.Contains(t, read(t, dir, checksums), name)
	}
	require.NotContains(t, read(t, dir, rpmKey), "PRIVATE")
	_, err := sealed(t, dir, nil)
	require.NoError(t, err)
	require.NotContains(t, names(t, dir), rpmKey)

	for value, want := range map[string]string{
		"b3BlbnNzaC1rZXk":       "cannot read the file that PACKAGE_KEY names: no such file or directory",
		newPackageKey(t, 1024):  "it is not an RSA private key of at least 2048 bits",
		newKey(t):               "it is not an RSA private key of at least 2048 bits",
		"-----BEGIN b3Blbg----": "it is not an RSA private key of at least 2048 bits",
	} {
		_, err := readPackageKey(value)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "b3Blbn")
	}
	_, err = sealed(t, dir, map[string]string{"SIGNING_KEY": newKey(t), "RELEASE_REQUIRE_SIGNATURE": "1"})
	require.ErrorContains(t, err, "PACKAGE_KEY is not set")
}

// The recipe of the packages signs the RPM and the Alpine package. The documented commands accept the RPM; each changed
// part of a package is noticed.
func TestVerifyPackages(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, read := range []string{"../packages", "../../tools/go.sum"} {
		require.NoError(t, program.LookInto(read))
	}
	dir := t.TempDir()
	key := newPackageKey(t, 2048)
	_, err := sealed(t, dir, map[string]string{"PACKAGE_KEY": key}, "-package-keys", dir)
	require.NoError(t, err)
	for _, kind := range []string{"rpm", "apk"} {
		pack(t, dir, kind, "RPM_KEY="+filepath.Join(dir, "rpm.key"), "APK_KEY="+filepath.Join(dir, "alpine.key"))
	}
	parsed, err := readPackageKey(key)
	require.NoError(t, err)
	require.NoError(t, parsed.writePublic(dir))

	verify := "export HOME=$PWD\n" + strings.NewReplacer("rpm ", "rpm --dbpath $PWD/db ").Replace(
		documented(t, "verify-release.md", "## RPM packages"))
	out, err := shell(t, dir, verify)
	require.NoError(t, err, out)
	require.Contains(t, out, "digests signatures OK")
	rpm := read(t, dir, "vmop-1.0.0-1.x86_64.rpm")
	for _, at := range []int{strings.Index(rpm, "plain QEMU"), len(rpm) - 10} { // the header, the content
		require.NoError(t, writeFile(dir, "vmop-1.0.0-1.x86_64.rpm", changedAt(rpm, at)))
		out, err := shell(t, dir, verify)
		require.Error(t, err, out)
		require.Contains(t, out, "NOT OK")
	}

	alpine := splitAlpine(t, read(t, dir, "vmop_1.0.0_x86_64.apk"))
	require.Len(t, alpine, 3)
	require.NoError(t, verifyAlpine(alpine, read(t, dir, alpineKey)))
	const time = 4 // position in a gzip member
	for part, want := range map[int]string{1: rsa.ErrVerification.Error(), 2: "the content has another checksum"} {
		changed := slices.Clone(alpine)
		changed[part] = changedAt(string(alpine[part]), time)
		require.ErrorContains(t, verifyAlpine(changed, read(t, dir, alpineKey)), want)
	}
	other, err := readPackageKey(newPackageKey(t, 2048))
	require.NoError(t, err)
	require.NoError(t, other.writePublic(dir))
	require.ErrorIs(t, verifyAlpine(alpine, read(t, dir, alpineKey)), rsa.ErrVerification)

	pack(t, dir, "rpm")
	out, err = shell(t, dir, verify)
	require.NoError(t, err, out)
	require.NotContains(t, out, "signatures", "it has no signature")
	pack(t, dir, "apk")
	require.Len(t, splitAlpine(t, read(t, dir, "vmop_1.0.0_x86_64.apk")), 2, "it has no signature")
}

// changedAt returns a text with one other byte.
func changedAt(text string, at int) []byte {
	changed := []byte(text)
	changed[at] ^= 1
	return changed
}

// pack builds a package of one file with the recipe of all packages.
func pack(t *testing.T, dir, kind string, env ...string) {
	t.Helper()
	staging := filepath.Join(dir, "staging")
	require.NoError(t, os.MkdirAll(filepath.Join(staging, "usr", "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(staging, "usr", "bin", "vmrunner"), []byte("x"), 0o755))
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools/go.mod", "nfpm", "package", "-f",
		"deploy/packages/nfpm.yaml", "-p", kind, "-t", dir)
	cmd.Dir = "../.."
	cmd.Env = append(append(os.Environ(), "STAGING="+staging, "PACKAGE_VERSION=1.0.0", "ARCH=amd64"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// splitAlpine returns the gzip members of an Alpine package: the signature of the next member, the description with the
// checksum of the last member, and the content.
func splitAlpine(t *testing.T, text string) (members [][]byte) {
	t.Helper()
	for rest := []byte(text); len(rest) > 0; {
		in := bytes.NewReader(rest)
		zip, err := gzip.NewReader(in)
		require.NoError(t, err)
		zip.Multistream(false)
		_, err = io.Copy(io.Discard, zip)
		require.NoError(t, err)
		size := len(rest) - in.Len()
		members, rest = append(members, rest[:size:size]), rest[size:]
	}
	return members
}

// verifyAlpine checks a package as apk does.
func verifyAlpine(members [][]byte, publicKey string) error {
	signature, err := firstFile(members[0], ".SIGN.RSA."+alpineKey)
	if err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(publicKey))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return err
	}
	sum := sha1.Sum(members[1]) //nolint:gosec
	if err := rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA1, sum[:], signature); err != nil {
		return err
	}
	info, err := firstFile(members[1], ".PKGINFO")
	if err == nil && !strings.Contains(string(info), fmt.Sprintf("datahash = %x\n", sha256.Sum256(members[2]))) {
		err = errors.New("the content has another checksum")
	}
	return err
}

func firstFile(archive []byte, name string) ([]byte, error) {
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	in := tar.NewReader(zip)
	header, err := in.Next()
	if err != nil || header.Name != name {
		return nil, fmt.Errorf("no file %s: %v, %w", name, header, err)
	}
	return io.ReadAll(in)
}
