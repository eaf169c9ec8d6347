package diskimage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/internal/outbound"
)

const mib = 1 << 20

// disk returns the bytes of a disk of 8 MiB and some sectors with data, holes, and data at the end.
func disk() []byte {
	data := make([]byte, 8*mib+3*512)
	random := rand.NewChaCha8([32]byte{1})
	for _, part := range [][2]int{
		{0, 200_000}, {3 * mib, 3*mib + 4096}, {5*mib + 100, 6*mib + 7}, {len(data) - 900, len(data)},
	} {
		_, _ = random.Read(data[part[0]:part[1]])
	}
	return data
}

// image returns a disk in the given format, created by qemu-img.
func image(t testing.TB, disk []byte, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	raw, made := filepath.Join(dir, "disk.raw"), filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(raw, disk, 0o600))
	qemuImg(t, append(append([]string{"convert", "-f", "raw"}, args...), raw, made)...)
	data, err := os.ReadFile(made)
	require.NoError(t, err)
	return data
}

func qemuImg(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput()
	require.NoError(t, err, "qemu-img (Debian: package qemu-utils) %s: %s", args, out)
	return string(out)
}

// served returns the URL of a server that provides the data.
func served(t testing.TB, data []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// quick returns limits for tests.
func quick() diskimage.Limits { return diskimage.Limits{Backoff: time.Millisecond} }

// here returns the address rule for tests, which run their servers on this computer.
func here() outbound.Rule {
	return outbound.Rule{Exempt: func(to netip.AddrPort) bool { return to.Addr().IsLoopback() }}
}

// to returns an import into a file in a folder of the test.
func to(t testing.TB, source diskimage.Source) diskimage.Import {
	t.Helper()
	return diskimage.Import{
		Source: source, Limits: quick(), Reach: here(),
		Target: diskimage.Target{Path: filepath.Join(t.TempDir(), "disk.img")},
	}
}

// refused runs an import that must fail and clean up.
func refused(t *testing.T, i diskimage.Import, reason diskimage.Reason, text string) {
	t.Helper()
	_, err := i.Run(t.Context())
	require.ErrorContains(t, err, text)
	require.Equal(t, reason, diskimage.ReasonOf(err), err.Error())
	empty(t, i)
}

// empty requires that the target's folder is empty.
func empty(t *testing.T, i diskimage.Import) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(i.Target.Path))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// imported runs an import that must succeed, and returns its result and the created disk.
func imported(t *testing.T, i diskimage.Import) (diskimage.Result, []byte) {
	t.Helper()
	result, err := i.Run(t.Context())
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Dir(i.Target.Path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")
	data, err := os.ReadFile(i.Target.Path)
	require.NoError(t, err)
	return result, data
}

func TestImagesBecomeRawDisks(t *testing.T) {
	t.Parallel()
	disk := disk()
	for name, c := range map[string]struct {
		args   []string
		format diskimage.Format
	}{
		"raw":             {[]string{"-O", "raw"}, diskimage.Raw},
		"qcow2":           {[]string{"-O", "qcow2"}, diskimage.QCOW2},
		"qcow2 version 2": {[]string{"-O", "qcow2", "-o", "compat=0.10"}, diskimage.QCOW2},
		"qcow2 zlib":      {[]string{"-O", "qcow2", "-c"}, diskimage.QCOW2},
		"qcow2 zstd":      {[]string{"-O", "qcow2", "-c", "-o", "compression_type=zstd"}, diskimage.QCOW2},
		"qcow2 subclusters": {
			[]string{"-O", "qcow2", "-o", "extended_l2=on,cluster_size=2M"}, diskimage.QCOW2,
		},
		"qcow2 small clusters":  {[]string{"-O", "qcow2", "-o", "cluster_size=512"}, diskimage.QCOW2},
		"vmdk":                  {[]string{"-O", "vmdk"}, diskimage.VMDK},
		"vmdk stream optimized": {[]string{"-O", "vmdk", "-o", "subformat=streamOptimized"}, diskimage.VMDK},
		"vhdx":                  {[]string{"-O", "vhdx"}, diskimage.VHDX},
		"vhdx fixed":            {[]string{"-O", "vhdx", "-o", "subformat=fixed"}, diskimage.VHDX},
		"vdi":                   {[]string{"-O", "vdi"}, diskimage.VDI},
		"vdi static":            {[]string{"-O", "vdi", "-o", "static=on"}, diskimage.VDI},
		"vpc":                   {[]string{"-O", "vpc", "-o", "force_size=on"}, diskimage.VPC},
		"vpc fixed":             {[]string{"-O", "vpc", "-o", "force_size=on,subformat=fixed"}, diskimage.VPC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := image(t, disk, c.args...)
			file := filepath.Join(t.TempDir(), "image")
			require.NoError(t, os.WriteFile(file, data, 0o600))
			sum := sha256.Sum256(data)
			for kind, source := range map[string]diskimage.Source{
				"HTTP": diskimage.HTTP{URL: served(t, data)}, "file": diskimage.File{Path: file},
				"upload": diskimage.Reader{R: bytes.NewReader(data), Size: int64(len(data))},
			} {
				result, got := imported(t, to(t, source))
				require.True(t, bytes.Equal(disk, got), "%s: %d bytes", kind, len(got))
				require.Equal(t, c.format, result.Format)
				require.EqualValues(t, len(disk), result.VirtualSize)
				if kind == "HTTP" {
					require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), result.Checksum)
					require.EqualValues(t, len(data), result.Transferred)
					require.Len(t, result.Warnings, 1)
					require.Contains(t, result.Warnings[0], "http without a checksum")
				}
			}
		})
	}
}

// An image written in chunks is complete, wherever the image or the footer of a fixed VHD ends in the last chunk.
func TestImagesOfManyChunks(t *testing.T) {
	t.Parallel()
	const chunk = 4 * mib
	for _, size := range []int{
		3 * chunk, 3*chunk - 512, 3*chunk + 512, 5*chunk - 1024, 5*chunk + 4096, 6*chunk + 1<<19,
	} {
		data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		for at := 0; at+mib < size; at += mib { // small and large holes, with small pieces of data between them
			clear(data[at : at+at/100&^4095])
			data[at+at/200] = 1
		}
		vhd := image(t, data, "-O", "vpc", "-o", "force_size=on,subformat=fixed")
		require.Len(t, vhd, size+512)
		file := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(file, vhd, 0o600))
		for _, source := range []diskimage.Source{
			diskimage.HTTP{URL: served(t, data)},
			diskimage.HTTP{URL: served(t, packed(t, "zstd", data))},
			diskimage.HTTP{URL: served(t, vhd)},
			diskimage.File{Path: file},
		} {
			_, got := imported(t, to(t, source))
			require.True(t, bytes.Equal(data, got), "%d bytes of %d", len(got), size)
		}
	}
}

func TestAnImportIsCanceled(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, 1000))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	i := to(t, diskimage.HTTP{URL: server.URL})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	i.Progress = func(p diskimage.Progress) {
		if p.Phase == diskimage.Transferring {
			cancel()
		}
	}
	_, err := i.Run(ctx)
	require.Equal(t, diskimage.Canceled, diskimage.ReasonOf(err))
	empty(t, i)
}
