package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"vmop/test/pages"
	"vmop/test/program"
	"vmop/test/tier"
)

// documented returns the commands below a heading of a page in docs/tasks.
func documented(t *testing.T, page, heading string) string {
	t.Helper()
	const folder = "../../docs/tasks"
	require.NoError(t, program.LookInto(folder))
	_, rest, found := strings.Cut(read(t, folder, page), "\n"+heading+"\n")
	require.True(t, found, heading)
	section, _, _ := strings.Cut(rest, "\n#")
	var commands strings.Builder
	for line := range strings.Lines(section) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands.WriteString(command)
		}
	}
	require.NotEmpty(t, commands.String(), heading)
	return commands.String()
}

// shell runs commands in a folder until one fails.
func shell(t *testing.T, dir, commands string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The documented commands create a key and verify a release, and they detect each change of it.
func TestVerifyARelease(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	keys := t.TempDir()
	sign, _, _ := strings.Cut(documented(t, "release.md", "## Sign"), "export ")
	for _, folder := range []string{"own", "other"} {
		out, err := shell(t, keys, "mkdir "+folder+" && cd "+folder+"\n"+sign)
		require.NoError(t, err, out)
	}
	const page = "verify-release.md"
	files, envelope := documented(t, page, "## The files"), documented(t, page, "## The provenance")
	for change, test := range map[string]struct{ command, filesSay, envelopeSays string }{
		"none": {"true", "", ""},
		"a file": {
			"echo x >>vmop_1.2.3_amd64.deb", "vmop_1.2.3_amd64.deb: FAILED", "",
		},
		"a file and its checksum": {
			"echo x >>install.yaml && sed -i /install.yaml/d SHA256SUMS && sha256sum install.yaml >>SHA256SUMS",
			"incorrect signature", "",
		},
		"the provenance": {
			"sed -i s/c0ffee/decaff/ provenance.json", "provenance.json: FAILED", "differ",
		},
		"the provenance in its envelope, too": {
			"sed -i s/c0ffee/decaff/ provenance.json; jq -c --rawfile p provenance.json '.payload = ($p | @base64)' " +
				"provenance.intoto.jsonl >new && mv new provenance.intoto.jsonl", "provenance.json: FAILED",
			"Verification Failure",
		},
		"a list of components": {"echo >>runner.cdx.json", "runner.cdx.json: FAILED", ""},
		"all, signed by another": {
			"cp -r ../kept/* . && cp -r ../forged/* . && cp ../kept/allowed_signers ../kept/release-key.pem .",
			"Could not verify signature", "Verification Failure",
		},
		"no signature": {"rm SHA256SUMS.sig", "Couldn't read signature file", ""},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for folder, key := range map[string]string{"kept": "own", "forged": "other", "release": "own"} {
				dir := release(t, imageSum)
				_, err := sealed(t, dir, map[string]string{"SIGNING_KEY": filepath.Join(keys, key, "release.key")})
				require.NoError(t, err)
				require.NoError(t, os.Rename(dir, filepath.Join(root, folder)))
			}
			dir := filepath.Join(root, "release")
			out, err := shell(t, dir, test.command)
			require.NoError(t, err, out)
			for commands, want := range map[string]string{files: test.filesSay, envelope: test.envelopeSays} {
				out, err := shell(t, dir, commands)
				require.Equal(t, want == "", err == nil, "%s", out)
				require.Contains(t, out, want)
			}
		})
	}
}

// archive writes an image with this content as an OCI archive and returns its digest in hexadecimal digits.
func archive(t *testing.T, file, content string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: int64(len(content))}))
	_, err := io.WriteString(w, content)
	require.NoError(t, errors.Join(err, w.Close()))
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	require.NoError(t, err)
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, l)
	require.NoError(t, err)
	digest, err := img.Digest()
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img}))
	require.NoError(t, err)
	out, err := shell(t, dir, "tar -cf "+file+" *")
	require.NoError(t, err, out)
	return digest.Hex
}

// newRegistry starts a registry and returns its host and port.
func newRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// typedAs replaces examples in documented commands, so that they work with a registry without TLS.
func typedAs(host string, more ...string) *strings.Replacer {
	return strings.NewReplacer(append(more, "registry.example", host, "v1.0.0", "v1.2.3",
		"skopeo copy", "skopeo --insecure-policy copy --src-tls-verify=false --dest-tls-verify=false",
		"skopeo inspect", "skopeo inspect --tls-verify=false")...)
}

// writePublicKey writes the public key of a private key, as a user keeps it.
func writePublicKey(t *testing.T, dir, private string) {
	t.Helper()
	key, err := readKey(private)
	require.NoError(t, err)
	public, err := key.publicPEM()
	require.NoError(t, err)
	require.NoError(t, writeFile(dir, publicKey, public))
}

// The documented commands copy the images of both programs, for both architectures, to a registry.
func TestImagesReachARegistry(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	typed, dir, digests := typedAs(newRegistry(t)), t.TempDir(), map[string]string{}
	images := filepath.Join(dir, "build/images")
	require.NoError(t, os.MkdirAll(images, 0o700))
	for _, name := range []string{"runner", "runner-arm64", "manager"} {
		digests[name] = archive(t, filepath.Join(images, name+".tar"), name)
	}
	for page, copied := range map[string]map[string]string{
		"cluster-admin":     {"runner:v1.0.0": "runner", "manager:v1.0.0": "manager"},
		"kubernetes-images": {"runner:v1.0.0": "runner"},
		"build-images":      {"runner:v1.0.0-amd64": "runner", "runner:v1.0.0-arm64": "runner-arm64"},
	} {
		const folder = "../../docs/tasks"
		require.NoError(t, program.LookInto(folder))
		count := 0
		for _, b := range pages.Read(page, []byte(read(t, folder, page+".md"))).Blocks {
			for command := range strings.Lines(b.Text) {
				if strings.HasPrefix(command, "skopeo copy ") {
					count++
					out, err := shell(t, dir, typed.Replace(command))
					require.NoError(t, err, out)
				}
			}
		}
		require.Len(t, copied, count, page)
		for image, name := range copied {
			out, err := shell(t, dir, typed.Replace("skopeo inspect docker://registry.example/vmop/"+image))
			require.NoError(t, err, out)
			require.Contains(t, out, `"Digest": "sha256:`+digests[name]+`"`, "%s: %s", page, image)
		}
	}
}

// The documented commands copy an image with its signature to a registry, where its digest equals the digest in the
// list of components. They accept the image only if the key has signed it.
func TestVerifyAnImage(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	host := newRegistry(t)
	publish := documented(t, "release.md", "## Publish the images")
	cosign, verify, _ := strings.Cut(documented(t, "verify-release.md", "## Images in a registry"), "\n")
	require.Contains(t, cosign, "cosign verify --key "+publicKey)
	own, other := newKey(t), newKey(t)
	for tag, test := range map[string]struct{ signer, of, want string }{
		"signed":         {own, "signed", ""},
		"forged":         {other, "forged", "Signature Verification Failure"},
		"unsigned":       {own, "", "manifest unknown"},
		"of-another-one": {own, "another", "false"},
	} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			const file = "vmop-runner-v1.2.3-amd64.tar"
			dir := t.TempDir()
			signed := archive(t, filepath.Join(dir, file), test.of)
			require.NoError(t, os.CopyFS(dir, os.DirFS(release(t, signed))))
			_, err := sealed(t, dir, map[string]string{"SIGNING_KEY": test.signer}, "-registry", host+"/vmop")
			require.NoError(t, err)
			digest := archive(t, filepath.Join(dir, file), tag)
			typed := typedAs(host, "runner:v1.0.0-amd64", "runner:"+tag)
			commands := typed.Replace(publish)
			if test.of == "" {
				commands, _, _ = strings.Cut(commands, "digest=")
			}
			out, err := shell(t, dir, commands)
			require.NoError(t, err, out)
			writePublicKey(t, dir, own)
			out, err = shell(t, dir, typed.Replace(verify))
			require.Equal(t, test.want == "", err == nil, out)
			require.Contains(t, out, test.want)
			out, err = shell(t, dir, typed.Replace("skopeo inspect docker://registry.example/vmop/runner:v1.0.0-amd64"))
			require.NoError(t, err, out)
			require.Contains(t, out, `"Digest": "sha256:`+digest+`"`)
		})
	}
}

// The documented commands publish the index of two architectures with its signature. They accept the index only if the
// key has signed it, and refuse an index that was changed.
func TestVerifyAnIndex(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	own, other := newKey(t), newKey(t)
	images := documented(t, "release.md", "## Publish the images")
	index := documented(t, "release.md", "## Publish the indexes")
	_, verify, _ := strings.Cut(documented(t, "verify-release.md", "## Images in a registry"), "\n")
	const replace = "skopeo copy --multi-arch index-only oci-archive:changed.tar docker://registry.example/vmop/runner:v1.0.0\n"
	for name, test := range map[string]struct{ signer, then, want string }{
		"signed":  {own, "", ""},
		"forged":  {other, "", "Signature Verification Failure"},
		"changed": {own, replace, "manifest unknown"},
		"changed, with the signature of another": {
			own, replace +
				"digest=$(skopeo inspect --raw docker://registry.example/vmop/runner:v1.0.0 | sha256sum | cut -c 1-64)\n" +
				"skopeo copy oci-archive:vmop-runner-v1.0.0.sig.tar docker://registry.example/vmop/runner:sha256-$digest.sig\n",
			"false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := newRegistry(t)
			dir := twoArchitectures(t, "amd64")
			_, err := sealed(t, dir, map[string]string{"SIGNING_KEY": test.signer}, "-registry", host+"/vmop")
			require.NoError(t, err)
			changed := changedIndex(t, read(t, dir, "vmop-runner-v1.2.3.index.tar"))
			require.NoError(t, writeFile(dir, "changed.tar", changed))
			typed := typedAs(host)
			all := images + strings.ReplaceAll(images, "amd64", "arm64") + index + test.then
			out, err := shell(t, dir, typed.Replace(all))
			require.NoError(t, err, out)
			writePublicKey(t, dir, own)
			out, err = shell(t, dir, typed.Replace(strings.ReplaceAll(verify, "v1.0.0-amd64", "v1.0.0")))
			require.Equal(t, test.want == "", err == nil, out)
			require.Contains(t, out, test.want)
			out, err = shell(t, dir, typed.Replace("skopeo inspect docker://registry.example/vmop/runner:v1.0.0"))
			require.NoError(t, err, out)
			require.Contains(t, out, `"Layers": [`, "the index leads to an image")
		})
	}
}

// changedIndex returns the archive of an index without its second image.
func changedIndex(t *testing.T, archive string) []byte {
	t.Helper()
	index := indexIn(t, archive)
	index.Manifests = index.Manifests[:1]
	a := build{}.newArchive()
	text, err := a.closeWith(a.addJSON(types.OCIImageIndex, index))
	require.NoError(t, err)
	return text
}
