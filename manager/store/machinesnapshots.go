package store

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	"vmop/manager/vm/objects"
)

// MachineSnapshots stores the snapshots of the VMs of one namespace, and their VolumeSnapshots. A manager works
// without either kind. It is safe for concurrent use.
type MachineSnapshots struct {
	snapshotBook[*v1.VirtualMachineSnapshot]
}

// NewMachineSnapshots returns an empty store. It calls changed when a snapshot, or one of its VolumeSnapshots, is
// created, changed or deleted. It calls all when one of the two kinds becomes known.
func NewMachineSnapshots(namespace string, changed func(name string), all func()) *MachineSnapshots {
	of := func(s *v1.VirtualMachineSnapshot) string { return s.Spec.VirtualMachineName }
	return &MachineSnapshots{newSnapshotBook(namespace, snapshot.MachineAppName, of, changed, all)}
}

// Snapshot returns a snapshot, or nil if it does not exist.
func (s *MachineSnapshots) Snapshot(name string) *v1.VirtualMachineSnapshot {
	return s.snapshots.getObject(name).DeepCopy()
}

// Volumes returns the VolumeSnapshots labeled with a snapshot's name, by their own names.
func (s *MachineSnapshots) Volumes(of string) map[string]*snapshot.Volume {
	all := map[string]*snapshot.Volume{}
	for _, v := range s.volumes.listObjects() {
		if v.GetLabels()[objects.LabelInstance] == of {
			all[v.GetName()] = snapshot.VolumeOf(v)
		}
	}
	return all
}

// Follow keeps the snapshots in sync with the API server until ctx is done.
func (s *MachineSnapshots) Follow(ctx context.Context, from client.WithWatch) {
	s.followSnapshots(ctx, from, &v1.VirtualMachineSnapshot{},
		func() client.ObjectList { return &v1.VirtualMachineSnapshotList{} })
}
