package disks

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// sizeOf returns a file's size and its allocated bytes.
func sizeOf(t *testing.T, path string) (size, taken int64) {
	t.Helper()
	var s syscall.Stat_t
	require.NoError(t, syscall.Lstat(path, &s))
	return s.Size, s.Blocks * 512
}

type files map[string]string

// fill writes files into a folder.
func fill(t *testing.T, dir string, files files) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func fit(t *testing.T, file string, size vmspec.Bytes) error {
	t.Helper()
	_, err := fitImage(vmspec.Drive{File: file, Size: size}, slog.New(slog.DiscardHandler))
	return err
}

// Fitting an image only creates or grows it, and leaves links and special files unchanged.
func TestFitImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, fit(t, path("new.img"), 8*vmspec.MiB))
	size, taken := sizeOf(t, path("new.img"))
	require.EqualValues(t, 8<<20, size)
	require.Zero(t, taken)
	info, err := os.Stat(path("new.img"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())

	fill(t, dir, files{"old.img": "what the guest wrote"})
	require.NoError(t, fit(t, path("old.img"), 2*vmspec.MiB))
	text, err := os.ReadFile(path("old.img"))
	require.NoError(t, err)
	require.Len(t, text, 2<<20)
	require.Equal(t, "what the guest wrote", strings.TrimRight(string(text), "\x00"))
	require.NoError(t, fit(t, path("old.img"), vmspec.MiB))
	size, _ = sizeOf(t, path("old.img"))
	require.EqualValues(t, 2<<20, size, "an image never becomes smaller")

	fill(t, dir, files{"others.img": "x"})
	require.NoError(t, os.Symlink("others.img", path("link.img")))
	require.NoError(t, os.Symlink("nowhere.img", path("dangling.img")))
	require.NoError(t, syscall.Mkfifo(path("fifo.img"), 0o600))
	for _, name := range []string{"link.img", "dangling.img", "fifo.img", "."} {
		require.NoError(t, fit(t, path(name), vmspec.MiB), name)
	}
	size, _ = sizeOf(t, path("others.img"))
	require.EqualValues(t, 1, size)
	require.NoFileExists(t, path("nowhere.img"))
	require.ErrorContains(t, fit(t, path("nowhere/disk.img"), vmspec.MiB), path("nowhere/disk.img"))
}

// ext4 creates a file system in a file and mounts it.
func ext4(t *testing.T, size int64) (dir, device, backing string) {
	t.Helper()
	backing, dir = filepath.Join(t.TempDir(), "backing"), t.TempDir()
	require.NoError(t, os.WriteFile(backing, nil, 0o600))
	require.NoError(t, os.Truncate(backing, size))
	command(t, "mkfs.ext4", "-q", backing)
	device = folder.Device(t, backing)
	require.NoError(t, syscall.Mount(device, dir, "ext4", 0, ""), "mount an ext4 (this test needs root)")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir, device, backing
}

// On a file system with too little space a sparse image is created, and the disk's watcher receives a warning.
func TestAnImageForWhichThereIsNoRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"), "mount a tmpfs (this test needs root)")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	image := filepath.Join(dir, "disk.img")
	require.NoError(t, fit(t, image, vmspec.GiB))
	size, taken := sizeOf(t, image)
	require.EqualValues(t, vmspec.GiB, size)
	require.Zero(t, taken)
	tests := []struct {
		wanted vmspec.Bytes
		want   string
	}{
		{0, ""},
		{vmspec.GiB, "the file system has room for 1 MiB of the disk's 1 GiB; the VM is paused when that is full"},
		{512 * vmspec.MiB, "the disk has 1 GiB and cannot shrink to 512 MiB; set at least its current size"},
		{4 * vmspec.GiB, "the disk has 1 GiB of 4 GiB: its file system has no room for more"},
	}
	for _, tt := range tests {
		drive := vmspec.Drive{File: image, Size: tt.wanted}
		have, err := fitImage(drive, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Equal(t, tt.want, sizeDifference(drive, have))
	}
	disks := New([]vmspec.Drive{{Type: vmspec.DriveRaw, Format: "raw", File: image, Size: vmspec.GiB}},
		plan.Rules{plan.Disk{Drive: 0}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan []vmspec.Fault, 1)
	go disks.Watch(ctx, func(map[int]int64) {}, func(list []vmspec.Fault) { told <- list })
	require.Equal(t, []vmspec.Fault{{Path: "vm.drives[0].size", Message: tests[1].want}}, <-told)
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput() // must also work after the test has ended
	require.NoError(t, err, "%s: %s", name, out)
	return string(out)
}

// An image is limited to the space of its volume, so a guest can fill its disk completely, even in the worst order. The
// image grows with the volume.
func TestAnImageFitsItsVolume(t *testing.T) {
	t.Parallel()
	dir, device, backing := ext4(t, 64<<20)
	image := filepath.Join(dir, "disk.img")
	require.NoError(t, fit(t, image, 64*vmspec.MiB))
	size, _ := sizeOf(t, image)
	require.Less(t, size, int64(64<<20))
	require.Greater(t, size, int64(44<<20))
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	const block = 4096
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(int(size / block)) {
		_, err := file.WriteAt([]byte(strings.Repeat("x", block)), int64(i)*block)
		require.NoError(t, err)
	}
	require.NoError(t, file.Sync())
	require.NoError(t, fit(t, image, 64*vmspec.MiB))
	full, _ := sizeOf(t, image)
	require.Equal(t, size, full, "a full disk has the same size")

	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	defer ballast.Close()
	for err == nil {
		_, err = ballast.WriteString(strings.Repeat("x", block))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, fit(t, filepath.Join(dir, "another.img"), 64*vmspec.MiB),
		"another.img is empty, and its file system has no room for more")

	require.NoError(t, errors.Join(file.Close(), ballast.Close(), syscall.Unmount(dir, 0),
		os.Truncate(backing, 128<<20)))
	command(t, "losetup", "--set-capacity", device)
	command(t, "e2fsck", "-fp", device)
	command(t, "resize2fs", device)
	require.NoError(t, syscall.Mount(device, dir, "ext4", 0, ""))
	require.NoError(t, fit(t, image, 80*vmspec.MiB))
	size, _ = sizeOf(t, image)
	require.EqualValues(t, 80<<20, size)
}

// Before a disk is created or enlarged, a warning shows that its file system has less room.
func TestLackOfRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"), "mount a tmpfs (this test needs root)")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	there := filepath.Join(dir, "there.img")
	require.NoError(t, os.WriteFile(there, []byte("x"), 0o600))
	require.NoError(t, os.Truncate(there, 8<<20))
	drive := func(file string, size vmspec.Bytes) vmspec.Drive {
		return vmspec.Drive{Type: vmspec.DriveRaw, Format: "raw", File: file, Size: size}
	}
	require.Equal(t, []string{
		"vm.drives[1].size: 1 TiB is more than the 3 MiB free in " + dir + "; the VM is paused when that is full",
		"vm.drives[3].size: 1 GiB is more than the 3 MiB free in " + dir +
			"; the disk grows only as far as there is room",
	}, LackOfRoom([]vmspec.Drive{
		drive(filepath.Join(dir, "new.img"), vmspec.MiB),
		drive(filepath.Join(dir, "data/web/disk.img"), 1024*vmspec.GiB),
		drive(there, 8*vmspec.MiB), drive(there, vmspec.GiB),
		{Type: vmspec.DriveIDECD, File: "/nowhere"},
		drive(dir, vmspec.GiB),
	}))
}
