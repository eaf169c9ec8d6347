package local

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"vmop/manager/web/fleet"
	"vmop/runner/disks/snapshot"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// Attachments implements fleet.Fleet.
func (f *Fleet) Attachments() fleet.Attachments { return f }

// Snapshots implements fleet.Fleet.
func (f *Fleet) Snapshots() fleet.Snapshots { return f }

// Restores implements fleet.Fleet.
func (f *Fleet) Restores() fleet.Restores { return f }

// Copies implements fleet.Fleet.
func (f *Fleet) Copies() fleet.Copies { return f }

// Autostarts implements fleet.Fleet.
func (f *Fleet) Autostarts() fleet.Autostarts { return f }

// DataDeletion implements fleet.Fleet.
func (f *Fleet) DataDeletion() fleet.DataDeletion { return f }

// Attachable implements fleet.Attachments.
func (f *Fleet) Attachable(context.Context, *fleet.VM) fleet.Attachable {
	a := fleet.Attachable{Files: true, Blank: true}
	for _, m := range f.Media() {
		a.Disks = append(a.Disks, m.File)
	}
	return a
}

// deviceTime is how long a guest may take to receive or release a disk or a network card.
const deviceTime = time.Minute

// changeDisk changes a disk of a VM in the background.
func (f *Fleet) changeDisk(ctx context.Context, name, what string,
	do func(context.Context, inventory.DiskRequest) (inventory.DiskChange, error),
) error {
	return f.changeInBackground(ctx, name, what, func(ctx context.Context) error {
		_, err := do(ctx, inventory.DiskRequest{
			VM: name, Limit: deviceTime,
			Tell: func(_, text string) { f.showStep(ctx, name, text) },
			Warn: func(text string) { f.log.Warn("the configuration has a warning", "vm", name, "warning", text) },
		})
		return err
	})
}

// Attach implements fleet.Attachments.
func (f *Fleet) Attach(ctx context.Context, _, name string, a fleet.Attachment) error {
	d := vmspec.Drive{File: a.Disk, Size: vmspec.Bytes(a.Size)}
	switch {
	case a.Disk == "" && a.Size <= 0:
		return fleet.Refusal("enter the path of a file, or the size of a new disk")
	case a.Disk != "" && !filepath.IsAbs(a.Disk):
		return fleet.Refusal(fmt.Sprintf("%q is not an absolute path; it must begin with /", a.Disk))
	case a.Disk != "" && a.Size < 0:
		return fleet.Refusal("the size of a disk can't be negative")
	}
	return f.changeDisk(ctx, name, "attach",
		func(ctx context.Context, r inventory.DiskRequest) (inventory.DiskChange, error) {
			return f.inventory.AttachDisk(ctx, r, d)
		})
}

// Detach implements fleet.Attachments.
func (f *Fleet) Detach(ctx context.Context, _, name, disk string) error {
	return f.changeDisk(ctx, name, "detach",
		func(ctx context.Context, r inventory.DiskRequest) (inventory.DiskChange, error) {
			return f.inventory.DetachDisk(ctx, r, disk)
		})
}

// Grow implements fleet.Attachments.
func (f *Fleet) Grow(ctx context.Context, _, name, disk string, size int64) error {
	return f.changeDisk(ctx, name, "grow",
		func(ctx context.Context, r inventory.DiskRequest) (inventory.DiskChange, error) {
			return f.inventory.ResizeDisk(ctx, r, disk, vmspec.Bytes(size))
		})
}

// ExportDisk implements fleet.DiskFiles.
func (f *Fleet) ExportDisk(ctx context.Context, _, name, disk, file, format string) error {
	if !filepath.IsAbs(file) {
		return fleet.Refusal(fmt.Sprintf("%q is not an absolute path; it must begin with /", file))
	}
	return f.changeInBackground(ctx, name, "export", func(ctx context.Context) error {
		f.showStep(ctx, name, "copying "+disk+" to "+file)
		return f.inventory.ExportDisk(ctx, name, disk, file, format)
	})
}

// Named implements fleet.Snapshots.
func (f *Fleet) Named() bool { return true }

// Snapshot implements fleet.Snapshots.
func (f *Fleet) Snapshot(ctx context.Context, _, name, called string) (string, error) {
	if called == "" {
		called = snapshot.DefaultName(time.Now())
	}
	return called, f.changeInBackground(ctx, name, "snapshot", func(ctx context.Context) error {
		_, err := f.inventory.CreateSnapshot(ctx, name, called, true,
			f.showCopy(ctx, name, "creating the snapshot "+called))
		return err
	})
}

// Restore implements fleet.Restores.
func (f *Fleet) Restore(ctx context.Context, _, name, called string, definition bool) error {
	return f.changeInBackground(ctx, name, "restore", func(ctx context.Context) error {
		return f.inventory.RestoreSnapshot(ctx, name, called, definition,
			f.showCopy(ctx, name, "restoring the snapshot "+called))
	})
}

// DeleteSnapshot implements fleet.Restores.
func (f *Fleet) DeleteSnapshot(ctx context.Context, _, name, called string) error {
	return f.changeInBackground(ctx, name, "delete a snapshot", func(ctx context.Context) error {
		return f.inventory.RemoveSnapshot(ctx, name, called)
	})
}

// Clone implements fleet.Copies.
func (f *Fleet) Clone(ctx context.Context, _, name, called, to string) error {
	return f.changeInBackground(ctx, name, "clone", func(ctx context.Context) (err error) {
		tell := f.showCopy(ctx, name, "copying the disks for "+to)
		if called == "" {
			_, err = f.inventory.CloneVM(ctx, name, to, tell)
		} else {
			_, err = f.inventory.CloneSnapshot(ctx, name, called, to, tell)
		}
		if err == nil {
			f.putCurrent(ctx, to)
		}
		return err
	})
}

// Rename implements fleet.Copies.
func (f *Fleet) Rename(ctx context.Context, _, name, to string) ([]string, error) {
	done, err := f.inventory.Rename(context.WithoutCancel(ctx), name, to) // an interruption would need a repetition
	if err != nil {
		return nil, asChangeRefusal(err)
	}
	f.Remove(name)
	f.putCurrent(ctx, to)
	return done.Notes, nil
}

// SetAutostart implements fleet.Autostarts.
func (f *Fleet) SetAutostart(ctx context.Context, _, name string, on bool) error {
	_, err := f.inventory.Autostart(ctx, name, on)
	f.putCurrent(ctx, name)
	return asChangeRefusal(err)
}

// OwnData implements fleet.DataDeletion.
func (f *Fleet) OwnData(ctx context.Context, name string) ([]string, error) {
	own, err := f.inventory.OwnData(ctx, name)
	if own == nil || err != nil {
		return nil, asRefusal(err)
	}
	var list []string
	for _, d := range own.Disks {
		list = append(list, fmt.Sprintf("%s (%s)", d.File, vmspec.Bytes(d.Size)))
	}
	return append(list, own.Others...), nil
}

// DeleteWithData implements fleet.DataDeletion.
func (f *Fleet) DeleteWithData(ctx context.Context, _, name string) ([]string, error) {
	left, err := f.inventory.Delete(ctx, name, inventory.DeleteOptions{Disks: true})
	return left, asChangeRefusal(err)
}
