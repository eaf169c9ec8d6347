package runner_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/folder"
)

// image creates a file of zeros in the VM's folder.
func (v *vm) image(name string, size int64) string {
	v.t.Helper()
	path := v.path(name)
	require.NoError(v.t, os.WriteFile(path, nil, 0o600))
	require.NoError(v.t, os.Truncate(path, size))
	return path
}

// touch makes the runner read its configuration and the related files.
func (v *vm) touch() {
	v.t.Helper()
	v.write("config.yaml", v.read("config.yaml"))
}

// diskSize returns the size of a disk in bytes according to QEMU.
func (v *vm) diskSize(device string) int64 {
	var blocks []struct {
		QDev     string `json:"qdev"`
		Inserted struct {
			Image struct {
				Size int64 `json:"virtual-size"`
			}
		}
	}
	v.qmp(&blocks, "query-block")
	for _, b := range blocks {
		if b.QDev == device || strings.Contains(b.QDev, "/"+device+"/") {
			return b.Inserted.Image.Size
		}
	}
	return 0
}

func TestABlockDeviceGrows(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	backing := v.image("backing.img", 1<<20)
	device := folder.Device(t, backing)
	v.configure("wrapped", nil, v.section("drives: [{resource: "+device+"}]")...)
	v.runs()
	require.NoError(t, os.Truncate(backing, 2<<20))
	require.NoError(t, exec.CommandContext(t.Context(), "losetup", "--set-capacity", device).Run())
	v.touch()
	eventually(t, 2<<20, func() int64 { return v.diskSize("disk0") })
	v.ends()
}

// A disk with a size needs no image: it is created, and grows with the size while the VM runs and when it starts again.
func TestADiskIsMadeAndGrows(t *testing.T) {
	t.Parallel()
	v := changeable(t, "drives: [{file: disk.img, size: 8 MiB}]")
	v.runs()
	v.logged("image made", "file", v.path("disk.img"), "size", "8 MiB")
	require.EqualValues(t, 8<<20, v.diskSize("disk0"))
	v.configure("wrapped", nil, v.section("drives: [{file: disk.img, size: 16 MiB}]")...)
	eventually(t, 16<<20, func() int64 { return v.diskSize("disk0") })
	v.logged("image grown", "size", "16 MiB", "before", "8 MiB")
	require.Empty(t, v.status().RestartAwaitingChanges)
	require.NoError(t, os.Rename(v.path("disk.img"), v.path("kept.img")))
	v.configure("wrapped", nil, v.section("drives: [{file: disk.img, size: 24 MiB}]")...)
	v.log.await(t, v.ended, "configuration read")
	v.ends()
	require.NoFileExists(t, v.path("disk.img"), "the disk of a machine that runs is not made anew")
	require.NoError(t, os.Rename(v.path("kept.img"), v.path("disk.img")))
	v.log.forget()
	v.runs()
	require.EqualValues(t, 24<<20, v.diskSize("disk0"))
	v.ends()
}

// If a disk is smaller than its size, or its file system has too little free space for it, the status reports a
// problem.
func TestADiskThatDiffersIsInTheStatus(t *testing.T) {
	t.Parallel()
	v := changeable(t, "drives: [{file: small/disk.img, size: 1 GiB}]")
	require.NoError(t, os.Mkdir(v.path("small"), 0o700))
	require.NoError(t, syscall.Mount("tmpfs", v.path("small"), "tmpfs", 0, "size=2m"), "this test needs root")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(v.path("small"), syscall.MNT_DETACH)) })
	v.runs()
	require.EqualValues(t, 1<<30, v.diskSize("disk0"))
	problem := func(want string) {
		v.becomes(want, func(s status.Status) bool {
			return slices.Contains(s.Problems, status.Problem{Path: "vm.drives[0].size", Message: want})
		})
	}
	problem("the file system has room for 1 MiB of the disk's 1 GiB; the VM is paused when that is full")
	v.configure("wrapped", nil, v.section("drives: [{file: small/disk.img, size: 512 MiB}]")...)
	problem("the disk has 1 GiB and cannot shrink to 512 MiB; set at least its current size")
	v.configure("wrapped", nil, v.section("drives: [{file: small/disk.img}]")...)
	v.becomes("well", func(s status.Status) bool { return len(s.Problems) == 0 })
	v.ends()
}

// If an image can't be created, the error names the key.
func TestADiskThatCannotBeMade(t *testing.T) {
	t.Parallel()
	v := changeable(t, "drives: [{file: nowhere/disk.img, size: 8 MiB}]")
	v.start()
	_, err := v.wait()
	require.ErrorContains(t, err, `vm.drives[0].file: the directory "`+v.path("nowhere")+`" does not exist (create it)`)
	v.nothingLeft()
}
