package inventory

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/adopt/lock"
	"vmop/runner/prepare"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// image creates an image in the format and returns its path.
func (h *here) image(name, format string) string {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	create := exec.CommandContext(h.t.Context(), "qemu-img", "create", "-q", "-f", format, file, "2M")
	out, err := create.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return file
}

// source returns the recorded source of a VM's only disk.
func (h *here) source(name string) string {
	h.t.Helper()
	list, err := h.Disks(h.t.Context(), name)
	require.NoError(h.t, err)
	require.Len(h.t, list, 1)
	return list[0].Source
}

// A new VM reuses a deleted VM's data only on request, and reports the origin of its disk.
func TestDataOfADeletedVM(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	disk, image := filepath.Join(h.dir, "data/vmrunner/web/disk.img"), h.image("i.qcow2", "qcow2")
	blank := text("web", quick, "drives: [{file: "+disk+", size: 2 MiB}]")
	filled := text("web", quick, "drives: [{file: "+disk+", size: 4 MiB, source: "+image+"}]")
	_, _, err := h.Create(ctx, "web", false, blank, "")
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "web"))
	h.stopped("web")
	first, err := os.ReadFile(filepath.Join(filepath.Dir(disk), "uuid.txt"))
	require.NoError(t, err)
	none, err := h.Orphans(ctx)
	require.NoError(t, err)
	require.Empty(t, none, "a VM that is configured is no orphan")
	_, err = h.Delete(ctx, "web", DeleteOptions{})
	require.NoError(t, err)

	review, err := h.ReviewNew(ctx, "web", false, filled)
	require.NoError(t, err)
	require.NotNil(t, review.Leftover)
	for range 2 {
		file, _, err := h.Create(ctx, "web", false, filled, "")
		require.ErrorAs(t, err, new(LeftoverError))
		require.ErrorContains(t, err, "disk.img (2 MiB), the uuid and VM type")
		require.NoFileExists(t, file)
	}
	orphans, err := h.Orphans(ctx)
	require.NoError(t, err)
	require.Len(t, orphans, 1)
	require.Equal(t, disk, orphans[0].Disks[0].File)

	_, _, err = h.Create(ctx, "web", false, filled, KeepData)
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "web"))
	require.Empty(t, h.source("web"), "the disk is the blank one")
	require.Contains(t, h.find("web").UnusedSources()[0],
		image+" is not used: the disk "+disk+" exists, and it was created blank")
	wait.Until(t, func() bool {
		s := h.find("web").Status
		return s != nil && len(s.Problems) == 1 && s.Problems[0].Path == "vm.drives[0].source"
	})
	h.stopped("web")
	kept, err := os.ReadFile(filepath.Join(filepath.Dir(disk), "uuid.txt"))
	require.NoError(t, err)
	require.Equal(t, first, kept)
	_, err = h.Delete(ctx, "web", DeleteOptions{})
	require.NoError(t, err)

	_, _, err = h.Create(ctx, "web", false, filled, FreshData)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Dir(disk))
	require.NoError(t, h.Start(ctx, "web"))
	require.Equal(t, image, h.source("web"))
	require.Empty(t, h.find("web").UnusedSources())
	h.stopped("web")
}

// A deleted VM's data is removed on request, unless a running VM uses it.
func TestOrphansAreRemoved(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	ctx := t.Context()
	kept, gone := h.write("data/vmrunner/kept/disk.img", nil), h.write("data/vmrunner/gone/uuid.txt", nil)
	h.write("data/vmrunner/logs/runner.log", nil)
	h.write("user/vmrunner/here.yaml", text("here", quick))
	h.write("data/vmrunner/here/disk.img", nil)
	list, err := h.Orphans(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2, "a log is nothing that a guest has left: %v", list)
	_, err = h.DeleteOrphan(ctx, "gone")
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Dir(gone))
	_, err = h.DeleteOrphan(ctx, "here")
	require.ErrorIs(t, err, ErrUnknown)

	l, err := h.Orphan(ctx, "kept")
	require.NoError(t, err)
	held, err := lock.Machine(filepath.Dir(kept))
	require.NoError(t, err)
	taken, err := held.Try()
	require.NoError(t, err)
	require.True(t, taken)
	require.ErrorIs(t, l.removeLeftover(), ErrRunning)
	_, err = h.Orphan(ctx, "kept")
	require.ErrorIs(t, err, ErrUnknown, "a VM is running with it")
	require.NoError(t, held.Release())
	require.FileExists(t, kept)
}

// An image of another format is refused as a raw disk, at a start and while the guest runs. A raw disk stays raw, even
// if its guest writes an image header to the beginning.
func TestAnImageIsNotTakenForARawDisk(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	root, image := h.write("root.img", make([]byte, 1<<20)), h.image("i.qcow2", "qcow2")
	before, err := os.ReadFile(image)
	require.NoError(t, err)
	right := text("web", quick, "drives: [{file: "+root+"}]")
	wrong := text("web", quick, "drives: [{file: "+root+"}, {file: "+image+", format: raw}]")
	file := h.write("user/vmrunner/web.yaml", wrong)
	require.ErrorContains(t, h.Start(ctx, "web"), "contains an image of the format qcow2")
	_, err = h.Review(ctx, "web", wrong)
	require.NoError(t, err, "it is a warning, like a missing file")

	require.NoError(t, os.WriteFile(file, right, 0o600))
	require.NoError(t, h.Start(ctx, "web"))
	raw := vmspec.Drive{File: image, Format: "raw"}
	for range 2 {
		_, err = h.attach(raw)
		require.ErrorContains(t, err, "contains an image of the format qcow2")
		require.Equal(t, string(right), h.configured())
	}
	require.NoError(t, os.WriteFile(file, wrong, 0o600)) // by hand
	wait.Until(t, func() bool {
		s := h.find("web").Status
		return s != nil && s.Configuration.Error != ""
	})
	require.NoError(t, os.WriteFile(file, right, 0o600))
	h.stopped("web")
	after, err := os.ReadFile(image)
	require.NoError(t, err)
	require.Equal(t, before, after)

	disk, err := os.OpenFile(root, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = disk.WriteAt(before[:512], 0) // like a guest
	require.NoError(t, err)
	require.NoError(t, disk.Close())
	require.NoError(t, h.Start(ctx, "web"), "the VM has used it as raw before")
	h.stopped("web")

	accept := request(wait.Longest)
	accept.AsRaw = true
	_, err = h.AttachDisk(ctx, accept, raw)
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "web"))
	h.stopped("web")
}

// Disks of VMs started by an earlier version stay raw, even without a record.
func TestDisksOfEarlierVersionsStayRaw(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	root := h.write("root.img", make([]byte, 1<<20))
	h.write("user/vmrunner/web.yaml", text("web", quick, "drives: [{file: "+root+", source: /other.img}]"))
	require.NoError(t, h.Start(ctx, "web"))
	h.stopped("web")
	vm := h.find("web")
	require.NotEmpty(t, vm.UnusedSources())
	require.NoError(t, os.Remove(prepare.OriginsFile(vm.DataDir)))
	require.NoError(t, os.WriteFile(root, append([]byte("QFI\xfb"), make([]byte, 1<<20)...), 0o600))
	_, err := h.attach(vmspec.Drive{File: h.image("i.qcow2", "qcow2"), Format: "raw"})
	require.ErrorContains(t, err, "i.qcow2")
	require.NoError(t, h.Start(ctx, "web"))
	require.Empty(t, h.find("web").UnusedSources(), "the origin is unknown")
	h.stopped("web")
}

// A failed start names the VM that uses the disk, and the failure is kept until the next start.
func TestTwoVMsWithOneDisk(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	disk := h.write("disk.img", make([]byte, 1<<20))
	for _, name := range []string{"a", "b"} {
		h.write("user/vmrunner/"+name+".yaml", text(name, quick, "drives: [{file: "+disk+"}]"))
	}
	require.NoError(t, h.Start(ctx, "a"))
	err := h.Start(ctx, "b")
	require.EqualError(t, err, "cannot start b: vm.drives[0].file: the VM a is running with the disk "+disk+
		": stop it with \"vmrunner stop a --wait\", or give each VM a separate disk")
	require.Equal(t, StateFailed, h.find("b").State)
	require.Contains(t, err.Error(), h.find("b").Problem)
	h.stopped("a")
	require.NoError(t, h.Start(ctx, "b"))
	h.stopped("b")
	require.Equal(t, vmstatus.StateStopped, h.find("b").State)
}
