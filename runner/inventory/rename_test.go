package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/disks/snapshot"
	"vmop/vmstatus"
)

// renamable creates the VM web with a disk from an image in its data directory, and lets it run once.
func (h *here) renamable() (uuid string) {
	h.t.Helper()
	disk := filepath.Join(h.dir, "data/vmrunner/web/disk.img")
	_, _, err := h.Create(h.t.Context(), "web", false, text("web", quick,
		"drives: [{file: "+disk+", size: 4 MiB, source: "+h.image("i.qcow2", "qcow2")+"}] # mine"), "")
	require.NoError(h.t, err)
	require.NoError(h.t, h.Start(h.t.Context(), "web"))
	h.stopped("web")
	return h.uuid("web")
}

// isRenamed requires that the VM www has everything that web had.
func (h *here) isRenamed(uuid string) {
	h.t.Helper()
	_, err := h.Find(h.t.Context(), "web")
	require.ErrorIs(h.t, err, ErrUnknown)
	require.NoDirExists(h.t, filepath.Join(h.dir, "data/vmrunner/web"))
	vm := h.find("www")
	require.NoError(h.t, vm.Fault)
	require.Equal(h.t, vmstatus.StateStopped, vm.State)
	info, err := os.Lstat(vm.DataDir)
	require.NoError(h.t, err)
	require.True(h.t, info.IsDir())
	require.Equal(h.t, uuid, h.uuid("www"))
	require.Equal(h.t, filepath.Join(h.dir, "i.qcow2"), h.source("www"))
	orphans, err := h.Orphans(h.t.Context())
	require.NoError(h.t, err)
	require.Empty(h.t, orphans)
	require.NoError(h.t, h.Start(h.t.Context(), "www"))
	h.stopped("www")
}

// A stopped VM is renamed with its disks, snapshots and host keys. A running VM, and a name in use, are refused.
func TestRename(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	uuid := h.renamable()
	_, err := h.CreateSnapshot(ctx, "web", "first", false, func(snapshot.Progress) {})
	require.NoError(t, err)
	h.write("data/vmrunner/web/known_hosts", []byte("|1|c2FsdA==|aGFzaA== ssh-ed25519 AAAA\n"))
	h.write("data/vmrunner/left/disk.img", []byte("data"))
	h.write("user/vmrunner/other.yaml", text("other", quick))

	for to, want := range map[string]string{
		"left": "data of a deleted VM", "other": "there is a VM of this name", "a b": "is not a valid VM name",
		"images": "another meaning",
	} {
		_, err = h.Rename(ctx, "web", to)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, h.Start(ctx, "web"))
	_, err = h.Rename(ctx, "web", "www")
	require.ErrorIs(t, err, ErrRunning)
	require.NoError(t, h.End(ctx, "web", true))

	done, err := h.Rename(ctx, "web", "www")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(h.dir, "user/vmrunner/www.yaml"), done.File)
	require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "data/vmrunner/left")))
	h.isRenamed(uuid)
	now, err := os.ReadFile(done.File)
	require.NoError(t, err)
	require.Contains(t, string(now), "# mine")
	require.Contains(t, string(now), filepath.Join(h.dir, "data/vmrunner/www/disk.img"))
	keys, err := os.ReadFile(h.find("www").KnownHosts())
	require.NoError(t, err)
	require.Contains(t, string(keys), "\n"+SSHAlias("www")+" ssh-ed25519 AAAA\n")
	require.NoError(t, h.RestoreSnapshot(ctx, "www", "first", true, func(snapshot.Progress) {}))
	h.isRenamed(uuid)
}

// A rename that is interrupted at any point leaves the VM with its old or its new name, and with its disk. The next
// call completes it.
func TestAnInterruptedRename(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"web.yaml", "web/config.yaml"} {
		for point := range 3 {
			h := newHere(t).withProgram()
			uuid := h.renamable()
			file := filepath.Join(h.dir, "user/vmrunner", layout)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			if err := os.Rename(filepath.Join(h.dir, "user/vmrunner/web.yaml"), file); layout != "web.yaml" {
				require.NoError(t, err)
			}
			r, err := h.planRenaming(h.find("web"), "www")
			require.NoError(t, err)
			require.NoError(t, r.prepareRecords())
			for i := range min(point, len(r.moves)) {
				require.NoError(t, r.moves[i].moveFolder())
			}
			if point == 2 && len(r.moves) == 1 {
				require.NoError(t, os.WriteFile(r.file, r.text, 0o600))
			}
			require.NoError(t, h.Start(t.Context(), "web"), "%s at %d", layout, point)
			h.stopped("web")
			require.Equal(t, uuid, h.uuid("web"))
			_, err = h.Rename(t.Context(), "web", "www")
			require.NoError(t, err, "%s at %d", layout, point)
			h.isRenamed(uuid)
		}
	}
}

// A failed rename changes nothing.
func TestAFailedRename(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	uuid := h.renamable()
	before := h.configured()
	r, err := h.planRenaming(h.find("web"), "www")
	require.NoError(t, err)
	r.file = filepath.Join(h.dir, "nowhere/www.yaml")
	require.Error(t, r.renameAll(t.Context()))
	require.Equal(t, before, h.configured())
	require.NoFileExists(t, filepath.Join(h.dir, "data/vmrunner/www"))
	require.Equal(t, uuid, h.uuid("web"))
	_, err = h.Rename(t.Context(), "web", "www")
	require.NoError(t, err)
	h.isRenamed(uuid)
}

// systemd starts the VM under its new name. With DynamicUser, the data directory is a link.
func TestRenameOfAService(t *testing.T) {
	h := newHere(t).withSystemctl()
	h.write("user/vmrunner/web.yaml", text("web", quick))
	h.write("user-vmrunner@web.service", loaded("web", "inactive", "enabled"))
	h.write("user/systemd/user/vmrunner@web.service.d/memory.conf", nil)
	h.write("data/private/web/"+config.UUIDFile, []byte("1a36b9c7-5b1d-4b0a-8f0e-6a4b8c1e2d3f\n"))
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "data/vmrunner"), 0o700))
	require.NoError(t, os.Symlink("../private/web", filepath.Join(h.dir, "data/vmrunner/web")))
	done, err := h.Rename(t.Context(), "web", "www")
	require.NoError(t, err)
	require.Equal(t, []string{
		"--user enable -- vmrunner@www.service", "--user disable -- vmrunner@web.service",
	}, h.calls())
	require.Len(t, done.Notes, 1)
	require.Contains(t, done.Notes[0], "vmrunner@web.service.d")
	target, err := os.Readlink(filepath.Join(h.dir, "data/vmrunner/www"))
	require.NoError(t, err)
	require.Equal(t, "../private/www", target)
	require.FileExists(t, filepath.Join(h.dir, "data/private/www", config.UUIDFile))
	require.NoFileExists(t, filepath.Join(h.dir, "data/vmrunner/web"))
	require.NoFileExists(t, filepath.Join(h.dir, "data/private/web"))
}
