package main

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/program"
)

// BenchmarkImport imports two images from a server: a Debian cloud image, qcow2 with compressed clusters, and a raw
// image of 512 MiB without holes. The peer is qemu-img, which reads from a file. Each runs twice, and only the second
// run counts: in the first, the kernel may have to allocate memory for its page cache, which can take longer than
// everything else in a virtual machine.
func BenchmarkImport(b *testing.B) {
	dir := b.TempDir()
	vmimport := filepath.Join(dir, "vmimport")
	require.NoError(b, program.Build(b.Context(), vmimport, "vmop/cmd/vmimport"))
	for _, format := range []string{"qcow2", "raw"} {
		b.Run(format, func(b *testing.B) {
			image := guest.Debian(b)
			if format == "raw" {
				image = filepath.Join(dir, "raw")
				timed(b, "dd", "if=/dev/urandom", "of="+image, "bs=1M", "count=512")
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.ServeFile(w, r, image)
			}))
			defer server.Close()
			target := filepath.Join(dir, "target")
			var ours, theirs, hash time.Duration
			var memory int64
			for b.Loop() {
				took, most := timed(b, vmimport, "import", "--url", server.URL, "--target", target)
				ours, memory = ours+took, max(memory, most)
				require.NoError(b, os.Remove(target))
				for range 2 {
					took, _ = timed(b, "sh", "-c", `qemu-img convert -f "$1" -O raw "$2" "$3" && sync "$3"`,
						"sh", format, image, target)
					require.NoError(b, os.Remove(target))
				}
				theirs += took
				hash += hashed(b, image)
			}
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-of-qemu-img")
			b.ReportMetric(hash.Seconds()/theirs.Seconds(), "x-of-qemu-img-sha256-alone")
			b.ReportMetric(float64(memory)/1024, "MiB-resident")
		})
	}
}

// hashed returns the time for the SHA-256 of a file, without the time for reading it.
func hashed(b *testing.B, name string) (took time.Duration) {
	file, err := os.Open(name)
	require.NoError(b, err)
	defer file.Close()
	h, buf := sha256.New(), make([]byte, 1<<20)
	for {
		n, err := file.Read(buf)
		if errors.Is(err, io.EOF) {
			return took
		}
		require.NoError(b, err)
		start := time.Now()
		_, _ = h.Write(buf[:n])
		took += time.Since(start)
	}
}

// timed runs a program. It returns the time and the maximum resident memory of the program or one of its children, in
// KiB.
func timed(b *testing.B, name string, args ...string) (time.Duration, int64) {
	cmd := exec.CommandContext(b.Context(), name, args...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	require.NoError(b, err, "%s", out)
	return took, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}
