package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/cloudinit"
)

// BenchmarkImage makes the image of four small files in memory. The goal is 2 ms.
func BenchmarkImage(b *testing.B) { benchmarkImage(b, fourFiles()) }

// BenchmarkImage16MB makes an image with 16 MiB of user-data in memory.
func BenchmarkImage16MB(b *testing.B) {
	benchmarkImage(b, cloudinit.Seed{UserData: bytesOf(16<<20, 1)})
}

func benchmarkImage(b *testing.B, seed cloudinit.Seed) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := Image(seed)
		require.NoError(b, err)
	}
}

// BenchmarkWriteImage makes the file, as the runner does. Its peers are BenchmarkMtools and BenchmarkGenisoimage.
func BenchmarkWriteImage(b *testing.B) {
	path := filepath.Join(b.TempDir(), "seed.img")
	seed := fourFiles()
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, Write(path, seed))
	}
}

func BenchmarkWriteImage16MB(b *testing.B) {
	path := filepath.Join(b.TempDir(), "seed.img")
	seed := cloudinit.Seed{UserData: bytesOf(16<<20, 1)}
	for b.Loop() {
		require.NoError(b, Write(path, seed))
	}
}

// BenchmarkMtools makes the same file by mformat and mcopy.
func BenchmarkMtools(b *testing.B) {
	mformat, mcopy := peer(b, "mformat"), peer(b, "mcopy")
	dir, names := writeFiles(b, fourFiles())
	image := filepath.Join(dir, "seed.img")
	for b.Loop() {
		require.NoError(b, os.RemoveAll(image))
		run(b, dir, mformat, "-C", "-f", "1440", "-v", "CIDATA", "-i", image, "::")
		run(b, dir, mcopy, append(append([]string{"-i", image}, names...), "::")...)
	}
}

// BenchmarkGenisoimage makes an ISO 9660 of the same files.
func BenchmarkGenisoimage(b *testing.B) {
	genisoimage := peer(b, "genisoimage")
	dir, names := writeFiles(b, fourFiles())
	for b.Loop() {
		run(b, dir, genisoimage, append([]string{
			"-quiet", "-output", "seed.iso", "-volid", "cidata", "-joliet",
			"-rock",
		}, names...)...)
	}
}

func peer(b *testing.B, name string) string {
	b.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		b.Fatalf("no comparison: %s is missing; install the Debian package of that name", name)
	}
	return path
}

func writeFiles(b *testing.B, s cloudinit.Seed) (dir string, names []string) {
	b.Helper()
	dir = b.TempDir()
	for _, f := range s.Files() {
		require.NoError(b, os.WriteFile(filepath.Join(dir, f.Name), f.Content, 0o600))
		names = append(names, f.Name)
	}
	return dir, names
}

func run(b *testing.B, dir, program string, args ...string) {
	b.Helper()
	command := exec.Command(program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(b, err, "%s: %s", program, out)
}
