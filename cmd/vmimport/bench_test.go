package main

import (
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

// BenchmarkImport imports from a server: a Debian cloud image, qcow2 with compressed clusters, and 512 MiB
// without holes, raw. The peer is qemu-img, which reads it from a file.
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
			var ours, theirs time.Duration
			var memory int64
			for b.Loop() {
				took, most := timed(b, vmimport, "import", "--url", server.URL, "--target", target)
				ours, memory = ours+took, max(memory, most)
				require.NoError(b, os.Remove(target))
				took, _ = timed(b, "sh", "-c", `qemu-img convert -f "$1" -O raw "$2" "$3" && sync "$3"`,
					"sh", format, image, target)
				theirs += took
				require.NoError(b, os.Remove(target))
			}
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-of-qemu-img")
			b.ReportMetric(float64(memory)/1024, "MiB-resident")
		})
	}
}

// timed runs a program, and returns how long it took and the most resident memory, in KiB, that
// it or a child of it had.
func timed(b *testing.B, name string, args ...string) (time.Duration, int64) {
	cmd := exec.CommandContext(b.Context(), name, args...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	require.NoError(b, err, "%s", out)
	return took, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}
