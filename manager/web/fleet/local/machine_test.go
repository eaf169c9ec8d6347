package local

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/wait"
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
		Grows: "disk", Exports: "disk",
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
	files := a.(fleet.DiskFiles)
	copied := filepath.Join(f.dir, "copied.img")
	require.Equal(t, "disk", f.web().Volumes[1].Exports)
	require.NoError(t, files.ExportDisk(ctx, "me", "web", "disk", copied, "raw"))
	have, err = os.ReadFile(copied)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("1"), 1<<20), have)
	for _, wrong := range [][2]string{{copied, "raw"}, {"copied.img", "raw"}, {copied + "2", "vmdk"}} {
		require.ErrorAs(t, files.ExportDisk(ctx, "me", "web", "disk", wrong[0], wrong[1]), &refusal, wrong)
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

// Network cards of a stopped VM are added, unplugged and removed in its configuration.
func TestNetworkCardsOfOneComputer(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.withDisk()
	ctx := t.Context()
	require.Contains(t, f.Networks(), "tap")
	require.NoError(t, f.AttachCard(ctx, "me", "web", fleet.Card{Network: "user"}))
	require.NoError(t, f.AttachCard(ctx, "me", "web", fleet.Card{Network: "tap", Bridge: "br1"}))
	cards := f.web().Cards
	require.Len(t, cards, 2)
	require.Equal(t, "br1", cards[1].Bridge)
	require.Equal(t, "network[1]", cards[1].Key, "it has no address until the first start")
	require.NoError(t, f.SetLink(ctx, "me", "web", cards[1].Key, false))
	require.True(t, f.web().Cards[1].Down)
	require.NoError(t, f.SetLink(ctx, "me", "web", cards[1].Key, true))
	require.NoError(t, f.DetachCard(ctx, "me", "web", cards[0].Key))
	require.Len(t, f.web().Cards, 1)
	require.Equal(t, "br1", f.web().Cards[0].Bridge)
	var refusal fleet.Refusal
	require.ErrorAs(t, f.DetachCard(ctx, "me", "web", cards[1].Key), &refusal, "it is gone")
	require.ErrorAs(t, f.AttachCard(ctx, "me", "web", fleet.Card{Network: "token ring"}), &refusal)
	require.ErrorAs(t, f.AttachCard(ctx, "me", "web", fleet.Card{Network: "user", Bridge: "br1"}), &refusal)
	require.ErrorIs(t, f.AttachCard(ctx, "me", "none", fleet.Card{Network: "user"}), fleet.ErrNotFound)
	require.Contains(t, f.read("web"), "# of the office")
}

// An image is fetched into the cache. The list shows the progress, and a failure until it is deleted.
func TestImagesAreFetched(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	ctx, all := t.Context(), f.Storage()
	begun, goOn := make(chan struct{}, 9), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow.img":
			begun <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			fallthrough
		case "/good.img":
			_, _ = w.Write(bytes.Repeat([]byte("1"), 1<<20))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	fetch := func(image string) error {
		return all.CreateDisk(ctx, "me", fleet.NewDisk{
			Kind: fleet.CachedImage, Disk: fleet.Disk{From: fleet.FromURL, Of: image},
		})
	}
	secret := strings.Replace(server.URL, "http://", "http://joe:hunter2@", 1)
	list := func() []fleet.Volume {
		volumes, err := all.Disks(ctx)
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(volumes), "hunter2")
		return volumes
	}
	var refusal fleet.Refusal
	require.ErrorAs(t, fetch("/srv/a.img"), &refusal)
	require.ErrorAs(t, fetch("ftp://x/a.img"), &refusal)
	require.NotEmpty(t, all.NewDisks().Known)

	require.NoError(t, fetch(secret+"/slow.img"))
	<-begun
	require.Equal(t, "Provisioning", list()[0].State)
	require.ErrorContains(t, fetch(secret+"/slow.img"), "is already being fetched")
	close(goOn)
	wait.Until(t, func() bool { v := list(); return len(v) == 1 && v[0].State == "Ready" }, "it is in the cache")

	require.NoError(t, fetch(server.URL+"/none.img"))
	wait.Until(t, func() bool { return list()[0].State == "Failed" }, "the failure is shown")
	require.Contains(t, list()[0].Message, "404")
	require.NoError(t, all.DeleteDisk(ctx, "me", fleet.CachedImage, list()[0].Name))
	require.Len(t, list(), 1)
	require.NoError(t, all.DeleteDisk(ctx, "me", fleet.CachedImage, list()[0].Name))
	require.Empty(t, list())
}

// Deleting an image that is being fetched ends the transfer.
func TestAFetchIsCanceled(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	ctx, all := t.Context(), f.Storage()
	begun, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write([]byte("1"))
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	image := server.URL + "/a.img"
	require.NoError(t, all.CreateDisk(ctx, "me", fleet.NewDisk{
		Kind: fleet.CachedImage, Disk: fleet.Disk{From: fleet.FromURL, Of: image},
	}))
	<-begun
	require.NoError(t, all.DeleteDisk(ctx, "me", fleet.CachedImage, image))
	<-gone
	wait.Until(t, func() bool {
		volumes, err := all.Disks(ctx)
		return err == nil && len(volumes) == 0
	}, "nothing is left")
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
