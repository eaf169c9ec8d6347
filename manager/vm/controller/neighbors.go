package controller

import (
	"context"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
)

// neighbors connects the controller of disks with the controllers that are created after it, because they need disks.
type neighbors struct{ *reconciler }

// Source implements diskctl.Snapshots.
func (n neighbors) Source(of v1.DiskSourceRef) *v1.VirtualDiskSnapshot {
	if of.Kind == v1.KindVMSnapshot {
		return snapshot.OfDisk(n.machines.Snapshot(of.Name), of.VirtualDiskName)
	}
	return n.snapshots.Snapshot(of.Name)
}

// Exported implements diskctl.Exports.
func (n neighbors) Exported(ctx context.Context, disk string, sure bool) (bool, error) {
	return n.attachments.Exported(ctx, disk, sure)
}

// diskChanged passes on the change of a disk or image.
func (n neighbors) diskChanged(disk string) {
	n.snapshots.DiskChanged(disk)
	n.attachments.DiskChanged(disk)
}
