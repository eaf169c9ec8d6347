package registry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/diskimage/registry"
	"vmop/internal/outbound"
)

// serve returns the address of a registry. wrap may be nil.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// push pushes an image with the layers into a registry and returns its name.
func push(t *testing.T, host string, options []remote.Option, layers ...v1.Layer) string {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(t, err)
	ref, err := name.ParseReference(host+"/images/disk:1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image, options...))
	return ref.String()
}

// A file is a file in a layer. If link is set, it is a link.
type file struct{ name, content, link string }

// files returns a layer that is an archive with the files.
func files(t *testing.T, list ...file) v1.Layer {
	t.Helper()
	return layer(t, archive(t, list...), types.OCIUncompressedLayer)
}

func archive(t *testing.T, list ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range list {
		header := &tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: 0o644, Typeflag: tar.TypeReg}
		switch {
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		require.NoError(t, w.WriteHeader(header))
		_, err := w.Write([]byte(f.content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func layer(t *testing.T, data []byte, kind types.MediaType) v1.Layer {
	t.Helper()
	return static.NewLayer(data, kind)
}

func into(t *testing.T, source registry.Image) diskimage.Import {
	t.Helper()
	return diskimage.Import{
		Source: source, Reach: outbound.Rule{Exempt: func(to netip.AddrPort) bool { return to.Addr().IsLoopback() }},
		Limits: diskimage.Limits{Backoff: time.Millisecond},
		Target: diskimage.Target{Path: filepath.Join(t.TempDir(), "disk.img")},
	}
}

// content returns a disk of 100 sectors with nonzero data at the end.
func content() string { return strings.Repeat("0123456789abcdef", 100*512/16) }

func TestDisksOfContainerImages(t *testing.T) {
	t.Parallel()
	disk := content()
	zipped := func(data []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	one := archive(t, file{name: "disk/"}, file{name: "disk/fedora.img", content: disk})
	for name, layers := range map[string][]v1.Layer{
		"containerDisk":    {files(t, file{name: "disk/", content: ""}, file{name: "disk/fedora.img", content: disk})},
		"gzip":             {layer(t, zipped(one), types.OCILayer)},
		"docker gzip":      {layer(t, zipped(one), types.DockerLayer)},
		"zstd":             {layer(t, encoder.EncodeAll(one, nil), types.OCILayerZStd)},
		"the disk is gzip": {files(t, file{name: "./disk/x.gz", content: string(zipped([]byte(disk)))})},
		"among others": {
			files(t, file{name: "etc/passwd", content: "root"}), files(t, file{name: "/disk/a", content: disk}),
			files(t, file{name: "other/b", content: "b"}, file{name: "disk/deeper/c", content: "c"}),
		},
		"a newer one": {files(t, file{name: "disk/a", content: "old"}), files(t, file{name: "disk/a", content: disk})},
		"one was removed": {
			files(t, file{name: "disk/a", content: "old"}),
			files(t, file{name: "disk/.wh.a"}, file{name: "disk/b", content: disk}),
		},
		"all were removed": {
			files(t, file{name: "disk/a", content: "old"}, file{name: "disk/b", content: "old"}),
			files(t, file{name: "disk/c", content: disk}, file{name: "disk/.wh..wh..opq"}),
		},
		"an artifact":            {layer(t, []byte(disk), "application/vnd.example.disk.v1.raw")},
		"an artifact, zipped":    {layer(t, zipped([]byte(disk)), "application/vnd.example.disk.v1.raw+gzip")},
		"an artifact as a layer": {layer(t, []byte(disk), types.OCIUncompressedLayer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := into(t, registry.Image{Reference: push(t, serve(t, nil), nil, layers...), Insecure: true})
			result, err := i.Run(t.Context())
			require.NoError(t, err)
			got, err := os.ReadFile(i.Target.Path)
			require.NoError(t, err)
			require.Equal(t, disk, string(got))
			require.Regexp(t, "^sha256:[0-9a-f]{64}$", result.Checksum)
			require.Equal(t, diskimage.Raw, result.Format)
			require.Len(t, result.Warnings, 1)
		})
	}
}

func TestContainerImagesThatAreRefused(t *testing.T) {
	t.Parallel()
	disk, other := file{name: "disk/a", content: content()}, file{name: "disk/b", content: "b"}
	overlay := "QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01" + strings.Repeat("\x00", 500)
	layers := func(list ...v1.Layer) []v1.Layer { return list }
	for name, c := range map[string]struct {
		layers []v1.Layer
		reason diskimage.Reason
		text   string
	}{
		"none": {
			layers(files(t, file{name: "etc/passwd", content: "x"})), diskimage.NoDiskInImage, "has no file in /disk",
		},
		"only deeper": {
			layers(files(t, file{name: "disk/a/b", content: "x"})), diskimage.NoDiskInImage, "has no file in /disk",
		},
		"above": {
			layers(files(t, file{name: "../disk/../x/a", content: "x"})),
			diskimage.NoDiskInImage, "has no file in /disk",
		},
		"a link": {
			layers(files(t, file{name: "disk/a", link: "/etc/passwd"})), diskimage.NoDiskInImage,
			"/disk/a is not a regular file",
		},
		"two":            {layers(files(t, disk, other)), diskimage.AmbiguousImage, "/disk/a and /disk/b"},
		"two, in layers": {layers(files(t, other), files(t, disk)), diskimage.AmbiguousImage, "/disk/a and /disk/b"},
		"an overlay": {
			layers(files(t, file{name: "disk/a", content: overlay})), diskimage.ImageHasBackingFile, "overlay",
		},
		"two, no archive": {
			layers(layer(t, []byte(content()), "x/a"), layer(t, []byte(content()+"2"), "x/b")), diskimage.ImageCorrupt,
			"a layer is corrupt",
		},
		"half a layer": {
			layers(layer(t, archive(t, disk)[:20_000], types.OCIUncompressedLayer)), diskimage.ImageCorrupt,
			"unexpected EOF",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := into(t, registry.Image{Reference: push(t, serve(t, nil), nil, c.layers...), Insecure: true})
			_, err := i.Run(t.Context())
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.reason, diskimage.ReasonOf(err), err.Error())
			entries, err := os.ReadDir(filepath.Dir(i.Target.Path))
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestReferencesThatAreRefused(t *testing.T) {
	t.Parallel()
	host := serve(t, nil)
	for reference, c := range map[string]struct {
		reason diskimage.Reason
		text   string
	}{
		"UPPER CASE":                           {diskimage.InvalidSource, "could not parse reference"},
		host + "/no/such:1":                    {diskimage.SourceNotFound, "the registry answers 404 Not Found"},
		"127.0.0.1:1/images/disk:1":            {diskimage.SourceUnreachable, "connection refused"},
		host + "/x@sha256:" + string(digit(1)): {diskimage.SourceNotFound, "404"},
	} {
		i := into(t, registry.Image{Reference: reference, Insecure: true})
		_, err := i.Run(t.Context())
		require.ErrorContains(t, err, c.text)
		require.Equal(t, c.reason, diskimage.ReasonOf(err), err.Error())
	}
}

func digit(n int) []byte { return bytes.Repeat([]byte{byte('0' + n)}, 64) }

// Data that does not match the digest is detected, even in a layer after the disk's layer.
func TestBytesThatAreNotThoseOfTheDigest(t *testing.T) {
	t.Parallel()
	for name, layers := range map[string][]v1.Layer{
		"the disk's": {files(t, file{name: "disk/a", content: content() + "CHANGE"})},
		"another": {
			files(t, file{name: "etc/b", content: content() + "CHANGE"}),
			files(t, file{name: "disk/a", content: content()}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := serve(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
						h.ServeHTTP(w, r)
						return
					}
					var got httptest.ResponseRecorder
					got.Body = &bytes.Buffer{}
					h.ServeHTTP(&got, r)
					_, _ = w.Write(bytes.ReplaceAll(got.Body.Bytes(), []byte("CHANGE"), []byte("OTHERS")))
				})
			})
			i := into(t, registry.Image{Reference: push(t, host, nil, layers...), Insecure: true})
			_, err := i.Run(t.Context())
			require.Equal(t, diskimage.ChecksumMismatch, diskimage.ReasonOf(err), "%v", err)
			require.NoFileExists(t, i.Target.Path)
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	reference := push(t, host, []remote.Option{remote.WithAuth(&authn.Basic{Username: "me", Password: "secret"})},
		files(t, file{name: "disk/a", content: content()}))
	const right, wrong = `{"auth": "bWU6c2VjcmV0"}`, `{"username": "me", "password": "wrong"}`
	auths := func(list ...any) string {
		form := `{"auths": {%q: %s}}`
		if len(list) > 2 {
			form = `{"auths": {%q: %s, %q: %s}}`
		}
		return fmt.Sprintf(form, list...)
	}
	for config, reason := range map[string]diskimage.Reason{
		"":                                   diskimage.SourceUnauthorized,
		auths(host, right):                   "",
		auths("https://"+host+"/v1/", right): "",
		auths(host, wrong, host+"/images", right):                           "",
		auths(host+"/ima", right, host, wrong):                              diskimage.SourceUnauthorized,
		fmt.Sprintf(`{%q: {"username": "me", "password": "secret"}}`, host): "",
		auths("other.example.org", right):                                   diskimage.SourceUnauthorized,
		`{"auths": "secret"}`:                                               diskimage.InvalidSource,
	} {
		source := registry.Image{Reference: reference, DockerConfig: []byte(config), Insecure: true}
		_, err := into(t, source).Run(t.Context())
		require.Equal(t, reason, diskimage.ReasonOf(err), "%s: %v", config, err)
		if err != nil {
			require.NotContains(t, err.Error(), "secret")
		}
	}
}

func TestARegistryWithACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting := []remote.Option{remote.WithTransport(server.Client().Transport)}
	reference := push(t, strings.TrimPrefix(server.URL, "https://"), trusting,
		files(t, file{name: "disk/a", content: content()}))
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	result, err := into(t, registry.Image{Reference: reference, CABundle: bundle}).Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, result.Warnings)
	_, err = into(t, registry.Image{Reference: reference}).Run(t.Context())
	require.Equal(t, diskimage.CertificateInvalid, diskimage.ReasonOf(err), "%v", err)
}

// After a broken connection in a layer, the import resumes or restarts.
func TestBrokenConnectionsToARegistry(t *testing.T) {
	t.Parallel()
	breaks := 0
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") && breaks < 2 {
				breaks++
				w = &breaking{ResponseWriter: w, left: 10_000}
			}
			h.ServeHTTP(w, r)
		})
	})
	reference := push(t, host, nil, files(t, file{name: "disk/a", content: content()}))
	i := into(t, registry.Image{Reference: reference, Insecure: true})
	_, err := i.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, breaks)
	got, err := os.ReadFile(i.Target.Path)
	require.NoError(t, err)
	require.Equal(t, content(), string(got))
}

// breaking closes the connection after some bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	n, _ := b.ResponseWriter.Write(p[:min(len(p), b.left)])
	if b.left -= n; b.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

func TestAnImportOfAContainerImageIsCanceled(t *testing.T) {
	t.Parallel()
	host := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	reference := push(t, host, nil, files(t, file{name: "disk/a", content: content()}))
	ctx, cancel := context.WithCancel(t.Context())
	i := into(t, registry.Image{Reference: reference, Insecure: true})
	i.Progress = func(diskimage.Progress) { cancel() }
	_, err := i.Run(ctx)
	require.Equal(t, diskimage.Canceled, diskimage.ReasonOf(err), "%v", err)
}

// The image for the platform is selected, or the only image in the index.
func TestAnIndexOfImages(t *testing.T) {
	t.Parallel()
	other, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive(t, file{name: "disk/a", content: content()}))), nil
	})
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, other)
	require.NoError(t, err)
	platform := &v1.Platform{OS: "plan9", Architecture: "mips"}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Platform: platform},
	})
	ref, err := name.ParseReference(serve(t, nil)+"/images/index:1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index))
	_, err = into(t, registry.Image{Reference: ref.String(), Insecure: true}).Run(t.Context())
	require.NoError(t, err)

	index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "plan9", Architecture: "arm"},
	}})
	require.NoError(t, remote.WriteIndex(ref, index))
	_, err = into(t, registry.Image{Reference: ref.String(), Insecure: true}).Run(t.Context())
	require.ErrorContains(t, err, "no child with platform")
	require.Equal(t, diskimage.SourceRefused, diskimage.ReasonOf(err))
}
