package diskimage_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// serve returns the URL of a server with the handler.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// stated returns a handler that answers with the HTTP status.
func stated(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestAnswersOfServers(t *testing.T) {
	t.Parallel()
	to302 := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
	}
	for text, c := range map[string]struct {
		url    string
		reason diskimage.Reason
	}{
		"answers 404 Not Found":         {serve(t, stated(404)), diskimage.SourceNotFound},
		"answers 410 Gone":              {serve(t, stated(410)), diskimage.SourceNotFound},
		"answers 401 Unauthorized":      {serve(t, stated(401)), diskimage.SourceUnauthorized},
		"answers 403 Forbidden":         {serve(t, stated(403)), diskimage.SourceUnauthorized},
		"answers 418 I'm a teapot":      {serve(t, stated(418)), diskimage.SourceRefused},
		"answers 204 No Content":        {serve(t, stated(204)), diskimage.SourceRefused},
		"answers 503 Service":           {serve(t, stated(503)), diskimage.SourceUnreachable},
		"connection refused":            {"http://127.0.0.1:1/x?token=hidden", diskimage.SourceUnreachable},
		"redirects in a loop":           {serve(t, to302("/loop")), diskimage.RedirectRefused},
		"redirects more than 10 times":  {serve(t, further), diskimage.RedirectRefused},
		"neither http nor https":        {serve(t, to302("ftp://127.0.0.1/x")), diskimage.RedirectRefused},
		"speaks another protocol: file": {"file:///etc/passwd", diskimage.InvalidSource},
		"want a URL: scheme":            {"127.0.0.1/x", diskimage.InvalidSource},
		"want a URL: host":              {"http:///x", diskimage.InvalidSource},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			text, _, _ := strings.Cut(text, ":")
			if c.reason == diskimage.InvalidSource {
				text = "must be a URL of http or https"
			}
			i := to(t, diskimage.HTTP{URL: c.url})
			refused(t, i, c.reason, text)
			_, err := i.Run(t.Context())
			require.NotContains(t, err.Error(), "hidden")
		})
	}
}

// further redirects to a new location each time.
func further(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
}

// secure returns the URL of a TLS server and its certificate as a bundle.
func secure(t *testing.T, handler http.HandlerFunc) (url string, bundle []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	data := disk()
	plain := served(t, data)
	url, bundle := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, plain, http.StatusFound)
			return
		}
		_, _ = w.Write(data)
	})
	result, got := imported(t, to(t, diskimage.HTTP{URL: url, CABundle: bundle}))
	require.True(t, bytes.Equal(data, got))
	require.Empty(t, result.Warnings)
	refused(t, to(t, diskimage.HTTP{URL: url}), diskimage.CertificateInvalid, "unknown authority; name its authority")
	refused(t, to(t, diskimage.HTTP{URL: url, CABundle: []byte("x")}), diskimage.InvalidSource, "CA bundle has no cert")
	refused(t, to(t, diskimage.HTTP{URL: url + "/down", CABundle: bundle}), diskimage.RedirectRefused,
		"redirects from https to http://127.0.0.1")
	refused(t, to(t, diskimage.HTTP{URL: strings.Replace(plain, "http", "https", 1)}), diskimage.SourceRefused,
		"does not speak TLS")
}

// A redirect to another port, or to a subdomain of the host, does not receive the password.
func TestCredentialsStayAtTheirServer(t *testing.T) {
	t.Parallel()
	data := disk()
	var came atomic.Int64
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			came.Add(1)
		}
		_, _ = w.Write(data)
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _, given := r.BasicAuth(); !given {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/here":
			_, _ = w.Write(data)
		case "/redirected":
			http.Redirect(w, r, "/here", http.StatusFound)
		default:
			http.Redirect(w, r, other, http.StatusFound)
		}
	})
	for _, path := range []string{"/redirected", "/away"} {
		_, got := imported(t, to(t, diskimage.HTTP{URL: url + path, Username: "me", Password: "secret"}))
		require.True(t, bytes.Equal(data, got))
	}
	require.Zero(t, came.Load())
}

// The password is sent only to the named host and appears in no message.
func TestBasicAuthentication(t *testing.T) {
	t.Parallel()
	data := disk()
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _, given := r.BasicAuth(); given {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write(data)
	})
	other = strings.Replace(other, "127.0.0.1", "localhost", 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other, http.StatusFound)
	})
	_, got := imported(t, to(t, diskimage.HTTP{URL: url, Username: "me", Password: "secret"}))
	require.True(t, bytes.Equal(data, got))
	wrong := strings.Replace(url, "http://", "http://me:wrong-secret@", 1)
	_, err := to(t, diskimage.HTTP{URL: wrong}).Run(t.Context())
	require.Equal(t, diskimage.SourceUnauthorized, diskimage.ReasonOf(err))
	require.NotContains(t, err.Error(), "secret")
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	data := packed(t, "gzip", image(t, disk(), "-O", "qcow2"))
	s256, s512, m5 := sha256.Sum256(data), sha512.Sum512(data), md5.Sum(data)
	for text, right := range map[string]bool{
		"sha256:" + hex.EncodeToString(s256[:]): true, strings.ToUpper("sha256:" + hex.EncodeToString(s256[:])): true,
		hex.EncodeToString(s256[:]): true, "sha512:" + hex.EncodeToString(s512[:]): true,
		hex.EncodeToString(s512[:]) + "\n": true, "md5:" + hex.EncodeToString(m5[:]): true,
		hex.EncodeToString(m5[:]): true, "md5:" + strings.Repeat("0", 32): false, strings.Repeat("0", 64): false,
		strings.Repeat("0", 128): false,
	} {
		checksum, err := diskimage.ParseChecksum(text)
		require.NoError(t, err)
		for _, source := range []diskimage.Source{
			diskimage.HTTP{URL: served(t, data)}, diskimage.Reader{R: bytes.NewReader(data)},
		} {
			i := to(t, source)
			i.Checksum = checksum
			if !right {
				refused(t, i, diskimage.ChecksumMismatch, "and not "+checksum.String())
				continue
			}
			result, _ := imported(t, i)
			require.Equal(t, checksum.String(), result.Checksum)
			require.Empty(t, result.Warnings)
		}
	}
	for text, want := range map[string]string{
		"sha256:0011":                       "has 4 digits; sha256 has 64",
		"0011":                              "must have 64 (sha256), 128 (sha512) or 32 (md5)",
		"sha1:" + strings.Repeat("0", 40):   "use sha256, sha512 or md5, not sha1",
		"sha256:" + strings.Repeat("x", 64): "use hexadecimal digits",
	} {
		_, err := diskimage.ParseChecksum(text)
		require.ErrorContains(t, err, want)
		require.Equal(t, diskimage.InvalidSource, diskimage.ReasonOf(err))
	}
}

func TestCompressedImages(t *testing.T) {
	t.Parallel()
	disk := disk()
	for program, name := range map[string]string{"gzip": "gz", "xz": "xz", "zstd": "zst"} {
		for _, data := range [][]byte{disk, image(t, disk, "-O", "qcow2")} {
			small := packed(t, program, data)
			result, got := imported(t, to(t, diskimage.HTTP{URL: served(t, small)}))
			require.True(t, bytes.Equal(disk, got), program)
			require.Equal(t, name, result.Compression)
			require.EqualValues(t, len(small), result.Transferred)
			half := small[:len(small)/2]
			refused(t, to(t, diskimage.Reader{R: bytes.NewReader(half)}), diskimage.ImageCorrupt, "("+name+")")
			half = append(bytes.Clone(half), small[len(small)/2+100:]...)
			refused(t, to(t, diskimage.Reader{R: bytes.NewReader(half)}), diskimage.ImageCorrupt, "("+name+")")
		}
	}
}

// Holes are never written, in any source format.
func TestHolesStayHoles(t *testing.T) {
	t.Parallel()
	data := make([]byte, 64*mib)
	copy(data[32*mib:], bytes.Repeat([]byte{1}, 100_000))
	file := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	sparse := filepath.Join(t.TempDir(), "sparse")
	qemuImg(t, "convert", "-f", "raw", "-O", "raw", file, sparse)
	for name, source := range map[string]diskimage.Source{
		"raw":    diskimage.HTTP{URL: served(t, data)},
		"gzip":   diskimage.HTTP{URL: served(t, packed(t, "gzip", data))},
		"qcow2":  diskimage.HTTP{URL: served(t, image(t, data, "-O", "qcow2"))},
		"vmdk":   diskimage.HTTP{URL: served(t, image(t, data, "-O", "vmdk"))},
		"file":   diskimage.File{Path: file},
		"sparse": diskimage.File{Path: sparse},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := to(t, source)
			i.Target.Size = 100 * mib
			_, got := imported(t, i)
			require.True(t, bytes.HasPrefix(got, data))
			require.Len(t, got, 100*mib)
			var st syscall.Stat_t
			require.NoError(t, syscall.Stat(i.Target.Path, &st))
			require.LessOrEqual(t, st.Blocks*512, int64(2*mib))
		})
	}
}

// Ten GiB of zeros compressed to a few kilobytes are accepted up to the limit and take no disk space.
func TestMuchFromLittle(t *testing.T) {
	t.Parallel()
	image := filepath.Join(t.TempDir(), "zeros.qcow2")
	qemuImg(t, "create", "-q", "-f", "qcow2", "-o", "cluster_size=2M", image, "10G")
	data, err := os.ReadFile(image)
	require.NoError(t, err)
	small := packed(t, "gzip", data)
	require.Less(t, len(small), 10_000)
	i := to(t, diskimage.HTTP{URL: served(t, small)})
	result, err := i.Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10<<30, result.VirtualSize)
	info, err := os.Stat(i.Target.Path)
	require.NoError(t, err)
	require.EqualValues(t, 10<<30, info.Size())
	require.LessOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks, int64(100))
}

func TestImagesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	data := disk()
	qcow2 := image(t, data, "-O", "qcow2")
	for name, c := range map[string]struct {
		data   []byte
		change func(*diskimage.Import)
		reason diskimage.Reason
	}{
		"raw": {data, func(i *diskimage.Import) { i.Target.Size = 8 * mib }, diskimage.ImageTooLarge},
		"gzip": {
			packed(t, "gzip", data), func(i *diskimage.Import) { i.Target.Size = 8 * mib }, diskimage.ImageTooLarge,
		},
		"qcow2": {qcow2, func(i *diskimage.Import) { i.Target.Size = 8 * mib }, diskimage.ImageTooLarge},
		"vhdx": {
			image(t, data, "-O", "vhdx"), func(i *diskimage.Import) { i.Target.Size = 8 * mib },
			diskimage.ImageTooLarge,
		},
		"by the limit": {qcow2, func(i *diskimage.Import) { i.Limits.VirtualSize = 8 * mib }, diskimage.ImageTooLarge},
		"transfer":     {qcow2, func(i *diskimage.Import) { i.Limits.Transfer = 1 * mib }, diskimage.TransferTooLarge},
		"behind zeros": {
			packed(t, "gzip", append(qcow2, make([]byte, 20*mib)...)),
			func(i *diskimage.Import) { i.Limits.Transfer = 10 * mib }, diskimage.TransferTooLarge,
		},
		"a size that says nothing": {
			append(bytes.Clone(qcow2[:24]), append([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), qcow2[32:]...)...),
			func(*diskimage.Import) {}, diskimage.ImageCorrupt,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := to(t, diskimage.HTTP{URL: served(t, c.data)})
			c.change(&i)
			refused(t, i, c.reason, "image")
		})
	}
}

func TestCorruptImages(t *testing.T) {
	t.Parallel()
	qcow2 := image(t, disk(), "-O", "qcow2")
	vmdk := image(t, disk(), "-O", "vmdk", "-o", "subformat=streamOptimized")
	for name, data := range map[string][]byte{
		"qcow2, cut off":           qcow2[:len(qcow2)/2],
		"qcow2, header only":       qcow2[:104],
		"qcow2, half a header":     qcow2[:50],
		"qcow2, tables of garbage": append(bytes.Clone(qcow2[:65536]), bytes.Repeat([]byte{165}, len(qcow2)-65536)...),
		"qcow2, marked":            append(append(bytes.Clone(qcow2[:79]), 2), qcow2[80:]...),
		"vmdk, cut off":            vmdk[:len(vmdk)/2],
		"vhdx, cut off":            image(t, disk(), "-O", "vhdx")[:250_000],
		"vdi, cut off":             image(t, disk(), "-O", "vdi")[:600],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, to(t, diskimage.HTTP{URL: served(t, data)}), diskimage.ImageCorrupt, "image")
		})
	}
}

// flaky serves data and breaks a number of transfers after some bytes.
type flaky struct {
	data    []byte
	after   int64
	times   int64
	breaks  atomic.Int64
	ranges  atomic.Int64 // range requests
	stall   bool         // stalls instead of closing the connection
	tag     func(n int64) string
	noRange bool
	chunked bool
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		f.ranges.Add(1)
	}
	if f.noRange {
		r.Header.Del("Range")
	}
	n := f.breaks.Load()
	if f.tag != nil {
		w.Header().Set("ETag", f.tag(n))
	}
	if n < f.times {
		f.breaks.Add(1)
		w = &breaking{w, r, f}
	}
	if f.chunked {
		_, _ = io.Copy(w, bytes.NewReader(f.data))
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

type breaking struct {
	http.ResponseWriter
	r *http.Request
	f *flaky
}

func (b *breaking) Write(p []byte) (int, error) {
	_, _ = b.ResponseWriter.Write(p[:min(int64(len(p)), b.f.after)])
	b.ResponseWriter.(http.Flusher).Flush()
	if b.f.stall {
		<-b.r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

func TestBrokenTransfers(t *testing.T) {
	t.Parallel()
	same := func(int64) string { return `"same"` }
	for name, c := range map[string]struct {
		server *flaky
		reason diskimage.Reason
		ranges int64
	}{
		"is resumed":               {&flaky{tag: same, times: 3}, "", 3},
		"is resumed after a stall": {&flaky{tag: same, times: 2, stall: true}, "", 2},
		"begins again":             {&flaky{times: 3}, "", 0},
		"a weak tag":               {&flaky{tag: func(int64) string { return `W/"x"` }, times: 2}, "", 0},
		"without ranges":           {&flaky{tag: same, times: 2, noRange: true}, "", 1},
		"without a size":           {&flaky{times: 2, chunked: true}, "", 0},
		"another image": {
			&flaky{tag: func(n int64) string { return fmt.Sprintf(`"%d"`, n) }, times: 2}, "", 1,
		},
		"too often, resumed":         {&flaky{tag: same, times: 100}, diskimage.TransferBroken, 5},
		"too often, again":           {&flaky{times: 100}, diskimage.TransferBroken, 0},
		"too often, stalled":         {&flaky{times: 100, stall: true}, diskimage.SourceStalled, 0},
		"too often, stalled, ranges": {&flaky{tag: same, times: 100, stall: true}, diskimage.SourceStalled, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.server.data, c.server.after = disk(), 30_000
			server := httptest.NewServer(c.server)
			t.Cleanup(server.Close)
			i := to(t, diskimage.HTTP{URL: server.URL})
			i.Limits.Stall = 200 * time.Millisecond
			if c.reason != "" {
				refused(t, i, c.reason, "bytes")
			} else {
				i.Checksum = sum(t, c.server.data)
				_, got := imported(t, i)
				require.True(t, bytes.Equal(c.server.data, got))
			}
			if c.server.ranges.Load() != c.ranges {
				t.Errorf("%d requests for a part", c.server.ranges.Load())
			}
		})
	}
}

func sum(t *testing.T, data []byte) diskimage.Checksum {
	t.Helper()
	h := sha256.Sum256(data)
	c, err := diskimage.ParseChecksum(hex.EncodeToString(h[:]))
	require.NoError(t, err)
	return c
}

func TestUploads(t *testing.T) {
	t.Parallel()
	data := disk()
	for name, c := range map[string]struct {
		reader diskimage.Reader
		reason diskimage.Reason
		text   string
	}{
		"too short": {
			diskimage.Reader{R: bytes.NewReader(data), Size: int64(len(data)) + 1},
			diskimage.TransferBroken, "ended after",
		},
		"too long": {
			diskimage.Reader{R: bytes.NewReader(data), Size: int64(len(data)) - 1},
			diskimage.TransferBroken, "more bytes came",
		},
		"broken": {
			diskimage.Reader{R: io.MultiReader(bytes.NewReader(data), broken{}), Size: 1 << 40},
			diskimage.ImageTooLarge, "",
		},
		"broken, unknown size": {
			diskimage.Reader{R: io.MultiReader(bytes.NewReader(data), broken{})},
			diskimage.TransferBroken, "the upload broke",
		},
		"silent": {diskimage.Reader{R: silent(t)}, diskimage.SourceStalled, "no data came for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := to(t, c.reader)
			i.Limits.Stall, i.Limits.VirtualSize = 200*time.Millisecond, 1<<30
			refused(t, i, c.reason, c.text)
		})
	}
	result, _ := imported(t, to(t, diskimage.Reader{R: bytes.NewReader(data)}))
	require.Len(t, result.Warnings, 1)
	require.Contains(t, result.Warnings[0], "neither a size nor a checksum")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cable cut") }

// silent returns a reader that blocks until it is closed.
func silent(t *testing.T) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

func TestTheTimeIsLimited(t *testing.T) {
	t.Parallel()
	i := to(t, diskimage.Reader{R: silent(t)})
	i.Limits.Time = 50 * time.Millisecond
	refused(t, i, diskimage.TimedOut, "took more than 50ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := to(t, diskimage.Reader{R: silent(t)}).Run(ctx)
	require.Equal(t, diskimage.Canceled, diskimage.ReasonOf(err))
}
