package store

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/snapshot"
)

// MachineSnapshots has the snapshots of the VMs of one namespace, and their VolumeSnapshots. A manager
// works without either. Its methods may be called by several goroutines.
type MachineSnapshots struct {
	snapshotBook[*v1.VirtualMachineSnapshot]
}

// NewMachineSnapshots returns one that is empty. changed is called for each snapshot that is new, has
// changed or is gone, or whose VolumeSnapshots have; all is called when one kind is known that wasn't.
func NewMachineSnapshots(namespace string, changed func(name string), all func()) *MachineSnapshots {
	of := func(s *v1.VirtualMachineSnapshot) string { return s.Spec.VirtualMachineName }
	return &MachineSnapshots{newSnapshotBook(namespace, snapshot.MachineAppName, of, changed, all)}
}

// Snapshot returns a snapshot; nil if there is none of that name.
func (s *MachineSnapshots) Snapshot(name string) *v1.VirtualMachineSnapshot {
	return s.snapshots.get(name).DeepCopy()
}

// Volumes returns the VolumeSnapshots with the labels of a snapshot of a name, by their names.
func (s *MachineSnapshots) Volumes(of string) map[string]*snapshot.Volume {
	all := map[string]*snapshot.Volume{}
	for _, v := range s.volumes.list() {
		if v.GetLabels()[objects.LabelInstance] == of {
			all[v.GetName()] = snapshot.VolumeOf(v)
		}
	}
	return all
}

// Follow keeps them as the API server has them, until ctx is done.
func (s *MachineSnapshots) Follow(ctx context.Context, from client.WithWatch) {
	s.follow(ctx, from, &v1.VirtualMachineSnapshot{},
		func() client.ObjectList { return &v1.VirtualMachineSnapshotList{} })
}
