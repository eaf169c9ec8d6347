package controller

import (
	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	snapshotctl "vmop/manager/snapshot/controller"
)

// sources finds the source snapshots of disks.
type sources struct {
	disks    *snapshotctl.Controller
	machines *snapshotctl.Machines
}

// Source implements provision.Snapshots.
func (s sources) Source(of v1.DiskSourceRef) *v1.VirtualDiskSnapshot {
	if of.Kind == v1.KindVMSnapshot {
		return snapshot.OfDisk(s.machines.Snapshot(of.Name), of.VirtualDiskName)
	}
	return s.disks.Snapshot(of.Name)
}
