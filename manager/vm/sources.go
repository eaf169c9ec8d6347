package vm

import (
	v1 "vmop/api/v1"
	"vmop/manager/capture"
	"vmop/manager/snapshot"
)

// sources are the snapshots of which disks are made.
type sources struct {
	disks    *capture.Controller
	machines *capture.Machines
}

// Source implements provision.Snapshots.
func (s sources) Source(of v1.DiskSourceRef) *v1.VirtualDiskSnapshot {
	if of.Kind == v1.KindVMSnapshot {
		return snapshot.OfDisk(s.machines.Snapshot(of.Name), of.VirtualDiskName)
	}
	return s.disks.Snapshot(of.Name)
}
