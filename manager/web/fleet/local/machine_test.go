package local

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// small is a VM without requirements, and a disk.
const small = `"/Runner":
  vm:
    name: web # of the office
    accelerator: tcg
    firmware: bios
    network: []
    maximumRam: 128 MiB
    drives:
    - {type: ide-cd}
    - file: DISK
`

// withDisk adds the VM web with a disk in its data directory.
func (f *folder) withDisk() (disk string) {
	f.t.Helper()
	disk = filepath.Join(f.dir, "data/vmrunner/web/disk.img")
	require.NoError(f.t, os.MkdirAll(filepath.Dir(disk), 0o700))
	require.NoError(f.t, os.WriteFile(disk, bytes.Repeat([]byte("1"), 1<<20), 0o600))
	f.write("web", string(bytes.ReplaceAll([]byte(small), []byte("DISK"), []byte(disk))))
	f.putCurrent(f.t.Context(), "web")
	return disk
}

func (f *folder) web() *fleet.VM {
	f.t.Helper()
	vm, err := f.Get("web")
	require.NoError(f.t, err)
	return vm
}

// Disks of a stopped VM are attached, grown and detached in its configuration, and snapshots restore their data.
func TestDisksAndSnapshots(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	disk := f.withDisk()
	ctx, a := t.Context(), f.Attachments()
	vm := f.web()
	require.Equal(t, fleet.CDDrive, vm.Volumes[0].Kind)
	require.Equal(t, fleet.Volume{
		Kind: fleet.FileDisk, Name: disk, Size: 1 << 20, Stored: 1 << 20, Format: "raw", Detaches: "disk",
		Grows: "disk",
	}, vm.Volumes[1])
	more := filepath.Join(f.dir, "more.img")
	require.NoError(t, os.WriteFile(more, make([]byte, 1<<20), 0o600))
	require.NoError(t, a.Attach(ctx, "me", "web", fleet.Attachment{Disk: more}))
	require.NoError(t, a.Attach(ctx, "me", "web", fleet.Attachment{Size: 8 << 20}))
	require.NoError(t, a.Grow(ctx, "me", "web", "more", 2<<20))
	vm = f.web()
	require.Len(t, vm.Volumes, 4)
	require.Equal(t, "WaitForFirstConsumer", vm.Volumes[3].State, "the start creates it")
	require.Contains(t, f.read("web"), "size: 2 MiB")
	var refusal fleet.Refusal
	require.ErrorAs(t, a.Detach(ctx, "me", "web", "disk"), &refusal, "the VM boots from it")
	require.ErrorAs(t, a.Grow(ctx, "me", "web", "disk", 4096), &refusal)
	require.ErrorContains(t, refusal, "disks cannot shrink")
	require.ErrorAs(t, a.Attach(ctx, "me", "web", fleet.Attachment{Disk: "more.img"}), &refusal)
	require.ErrorAs(t, a.Attach(ctx, "me", "web", fleet.Attachment{}), &refusal)
	require.ErrorIs(t, a.Attach(ctx, "me", "none", fleet.Attachment{Size: 1 << 20}), fleet.ErrNotFound)
	for _, v := range vm.Volumes[2:] {
		require.NoError(t, a.Detach(ctx, "me", "web", v.Detaches))
	}
	require.FileExists(t, more)
	require.Len(t, f.web().Volumes, 2)
	require.Contains(t, f.read("web"), "# of the office")

	name, err := f.Snapshots().Snapshot(ctx, "me", "web", "first")
	require.NoError(t, err)
	require.Equal(t, "first", name)
	_, err = f.Snapshots().Snapshot(ctx, "me", "web", "a b")
	require.ErrorAs(t, err, &refusal)
	require.NoError(t, os.WriteFile(disk, bytes.Repeat([]byte("2"), 1<<20), 0o600))
	require.Len(t, f.web().Snapshots, 1)
	require.Equal(t, "Ready", f.web().Snapshots[0].State)
	require.True(t, *f.web().Snapshots[0].Consistent)
	require.NoError(t, f.Restores().Restore(ctx, "me", "web", "first", false))
	have, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.Equal(t, byte('1'), have[0])
	require.NoError(t, f.Copies().Clone(ctx, "me", "web", "first", "copy"))
	require.NoError(t, f.Copies().Clone(ctx, "me", "web", "", "copy-2"))
	require.ErrorIs(t, f.Copies().Clone(ctx, "me", "web", "", "copy"), fleet.ErrExists)
	for _, copied := range []string{"copy", "copy-2"} {
		_, err := f.Get(copied)
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(f.dir, "data/vmrunner", copied, "disk.img"))
	}
	require.NoError(t, f.Restores().DeleteSnapshot(ctx, "me", "web", "first"))
	require.Empty(t, f.web().Snapshots)
	require.Error(t, f.Restores().Restore(ctx, "me", "web", "first", false))
	_, err = f.Copies().Rename(ctx, "me", "copy", "renamed")
	require.NoError(t, err)
	_, err = f.Get("copy")
	require.ErrorIs(t, err, fleet.ErrNotFound)

	own, err := f.DataDeletion().OwnData(ctx, "renamed")
	require.NoError(t, err)
	require.Contains(t, own[0], "renamed/disk.img (1 MiB)")
	left, err := f.DataDeletion().DeleteWithData(ctx, "me", "renamed")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoDirExists(t, filepath.Join(f.dir, "data/vmrunner/renamed"))
	require.ErrorAs(t, f.Autostarts().SetAutostart(ctx, "me", "web", true), &refusal, "VMs of a folder are no services")
	require.Nil(t, f.web().Autostart)
}

// An uploaded file can be inserted and attached, and the data of a deleted VM can be deleted.
func TestStorageOfOneComputer(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.withDisk()
	ctx, all := t.Context(), f.Storage()
	require.NoError(t, all.CreateDisk(ctx, "me", fleet.NewDisk{
		Kind: fleet.UploadedFile, Name: "a.iso", Disk: fleet.Disk{From: fleet.FromUpload},
	}))
	var refusal fleet.Refusal
	require.ErrorAs(t, all.CreateDisk(ctx, "me", fleet.NewDisk{Kind: fleet.VirtualDisk, Name: "a"}), &refusal)
	send := func(from, to int64) fleet.Upload {
		is, err := all.Upload(ctx, fleet.UploadedFile, "a.iso", fleet.Piece{
			ID: "x", Size: 6, From: from, Length: to - from, Body: bytes.NewReader([]byte("an iso")[from:to]),
		})
		require.NoError(t, err)
		return is
	}
	changed := f.Changed()
	require.Equal(t, fleet.Upload{State: fleet.UploadContinues, At: 3}, send(0, 3))
	<-changed // pages show the progress
	require.Empty(t, f.Media())
	list, err := all.Disks(ctx)
	require.NoError(t, err)
	require.Equal(t, "WaitForUserUpload", list[0].State)
	require.Equal(t, "50%", list[0].Progress)
	require.Equal(t, fleet.Upload{State: fleet.UploadImported, At: 6}, send(3, 6))
	require.Equal(t, fleet.Upload{State: fleet.UploadImported, At: 6}, send(0, 0), "the answer was lost")
	media := f.Media()
	require.Equal(t, filepath.Join(f.dir, "data/vmrunner-media/a.iso"), media[0].File)
	offer, err := f.Offer(ctx)
	require.NoError(t, err)
	require.Equal(t, media, offer.Media)
	require.Equal(t, []string{media[0].File}, f.Attachments().Attachable(ctx, f.web()).Disks)
	require.NoError(t, f.Insert(ctx, "me", "web", "drive 0", media[0].File))
	f.putCurrent(ctx, "web")
	require.Equal(t, media[0].File, f.web().Drives[0].Medium)
	require.ErrorAs(t, all.DeleteDisk(ctx, "me", fleet.UploadedFile, "a.iso"), &refusal)
	require.ErrorContains(t, refusal, "web uses it")

	require.NoError(t, f.Do(ctx, "me", "web", fleet.Delete))
	require.NoError(t, all.DeleteDisk(ctx, "me", fleet.UploadedFile, "a.iso"))
	list, err = all.Disks(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, fleet.DeletedVMData, list[0].Kind)
	require.Equal(t, "web", list[0].Name)
	require.Contains(t, list[0].Contents, "disk.img (1 MiB)")
	require.NoError(t, all.DeleteDisk(ctx, "me", fleet.DeletedVMData, "web"))
	require.NoDirExists(t, filepath.Join(f.dir, "data/vmrunner/web"))
	for _, kind := range fleet.VolumeKinds() {
		require.ErrorIs(t, all.DeleteDisk(ctx, "me", kind, "none"), fleet.ErrNotFound, kind)
	}
}
