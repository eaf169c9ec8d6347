package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"vmop/manager/web/fleet"
	"vmop/runner/inventory"
)

// uploads are the complete uploads since the start of the program, by name. A browser that has lost the last answer
// asks again.
type uploads struct {
	mu       sync.Mutex
	complete map[string]string // ids
}

// markComplete records that an upload is complete; an empty id removes the record.
func (u *uploads) markComplete(name, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.complete == nil {
		u.complete = map[string]string{}
	}
	u.complete[name] = id
}

// isComplete reports whether an upload is complete.
func (u *uploads) isComplete(name, id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return id != "" && u.complete[name] == id
}

// Storage implements fleet.Fleet. It has the files that users have uploaded, the fetched images, and the data of
// deleted VMs. The disks of VMs are files of these VMs.
func (f *Fleet) Storage() fleet.Storage { return f }

// Media implements fleet.Attachments.
func (f *Fleet) Media() (all []fleet.Medium) {
	list, err := f.inventory.Media(f.isSystem())
	if err != nil {
		f.log.Warn("the uploads can't be listed", "err", err)
	}
	for _, m := range list {
		if m.Received < 0 {
			all = append(all, fleet.Medium{Name: m.Name, File: m.File, Size: m.Size})
		}
	}
	return all
}

// Disks implements fleet.Storage.
func (f *Fleet) Disks(ctx context.Context) (all []fleet.Volume, err error) {
	media, err := f.inventory.MediaWithUse(ctx, f.isSystem())
	if err != nil {
		return nil, asRefusal(err)
	}
	for _, m := range media {
		all = append(all, newUpload(m))
	}
	all = append(all, f.fetches.listFetches()...)
	cached, err := f.inventory.CachedImages(f.isSystem())
	if err != nil {
		return nil, asRefusal(err)
	}
	for _, i := range cached {
		source := i.Source
		if i.URL != "" && i.URL != i.Source {
			source += ", " + i.URL
		}
		all = append(all, fleet.Volume{
			Kind: fleet.CachedImage, Name: i.ID, Size: i.Size, Stored: i.Stored, Source: source, State: "Ready",
			Added: i.Fetched, LastUse: i.Used,
		})
	}
	orphans, err := f.inventory.Orphans(ctx)
	if err != nil {
		return nil, asRefusal(err)
	}
	for i := range orphans {
		var size int64
		for _, d := range orphans[i].Disks {
			size += d.Size
		}
		all = append(all, fleet.Volume{
			Kind: fleet.DeletedVMData, Name: orphans[i].VM, Size: size, Stored: orphans[i].Stored,
			Source: orphans[i].Dir, Contents: orphans[i].String(),
		})
	}
	return all, nil
}

// newUpload returns an upload as pages show it.
func newUpload(m inventory.Medium) fleet.Volume {
	v := fleet.Volume{
		Kind: fleet.UploadedFile, Name: m.Name, Size: m.Size, Stored: m.Stored, State: "Ready", Source: m.File,
		Added: m.Added, UsedBy: m.UsedBy,
	}
	if m.Received >= 0 {
		v.State, v.Progress, v.Source = "WaitForUserUpload", fmt.Sprintf("%d%%", 100*m.Received/max(m.Size, 1)), ""
	}
	return v
}

// NewDisks implements fleet.Storage.
func (f *Fleet) NewDisks() fleet.NewDisks {
	folder, _ := f.inventory.MediaFolder(f.isSystem()) // an upload reports the error
	known, err := f.listKnown()
	if err != nil {
		f.log.Warn("the images with names can't be listed", "err", err)
	}
	return fleet.NewDisks{
		Known: known,
		Kinds: []fleet.VolumeKind{fleet.UploadedFile}, From: []fleet.DiskFrom{fleet.FromUpload},
		Folder: folder, Free: f.inventory.MediaFree(f.isSystem()),
	}
}

// CreateDisk implements fleet.Storage. An uploaded file exists from its first piece on.
func (f *Fleet) CreateDisk(ctx context.Context, _ string, d fleet.NewDisk) error {
	switch {
	case d.Kind == fleet.UploadedFile && d.From == fleet.FromUpload:
		return asRefusal(f.inventory.CheckUpload(f.isSystem(), d.Name, d.Size))
	case d.Kind == fleet.CachedImage && d.From == fleet.FromURL:
		return f.fetchImage(ctx, d.Of, d.Checksum)
	}
	return fleet.Refusal("this computer has no disks of this kind: use the kind UploadedFile with the source upload, or " +
		"CachedImage with the source url")
}

// DeleteDisk implements fleet.Storage.
func (f *Fleet) DeleteDisk(ctx context.Context, _ string, kind fleet.VolumeKind, name string) (err error) {
	switch kind {
	case fleet.UploadedFile:
		f.uploads.markComplete(name, "")
		err = f.inventory.RemoveMedium(ctx, f.isSystem(), name)
	case fleet.CachedImage:
		if !f.fetches.cancelFetch(name) {
			err = f.inventory.RemoveCachedImage(ctx, f.isSystem(), name)
		}
	case fleet.DeletedVMData:
		_, err = f.inventory.DeleteOrphan(ctx, name)
	default:
		return fleet.ErrNotFound
	}
	f.Touch()
	return asChangeRefusal(err)
}

// asChangeRefusal converts errors of a change that the user can understand and fix to a Refusal.
func asChangeRefusal(err error) error {
	err = asRefusal(err)
	if err == nil || errors.Is(err, fleet.ErrNotFound) || errors.Is(err, fleet.ErrExists) ||
		errors.Is(err, context.Canceled) || errors.As(err, new(fleet.Refusal)) || errors.As(err, new(fleet.NotYet)) {
		return err
	}
	return fleet.Refusal(err.Error())
}

// Upload implements fleet.Storage.
func (f *Fleet) Upload(
	ctx context.Context, kind fleet.VolumeKind, name string, p fleet.Piece,
) (is fleet.Upload, err error) {
	if kind != fleet.UploadedFile {
		return is, fleet.ErrNotFound
	}
	piece := inventory.MediumPiece{
		Name: name, ID: p.ID, Size: p.Size, Checksum: p.Checksum, From: p.From, Length: p.Length, Body: p.Body,
	}
	if p.Cancel {
		err := f.inventory.CancelUpload(f.isSystem(), piece)
		f.Touch()
		return fleet.Upload{State: fleet.UploadUnknown}, asRefusal(err)
	}
	if f.uploads.isComplete(name, p.ID) {
		return fleet.Upload{State: fleet.UploadImported, At: p.Size}, nil
	}
	at, err := f.inventory.Receive(ctx, f.isSystem(), piece)
	if err != nil {
		return is, asRefusal(err)
	}
	f.Touch()
	if at < p.Size {
		return fleet.Upload{State: fleet.UploadContinues, At: at}, nil
	}
	f.uploads.markComplete(name, p.ID)
	return fleet.Upload{State: fleet.UploadImported, At: at}, nil
}
