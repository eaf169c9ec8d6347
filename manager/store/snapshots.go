package store

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
)

// Snapshots stores the snapshots of the disks of one namespace, and their VolumeSnapshots. A manager works
// without either kind. It is safe for concurrent use.
type Snapshots struct {
	snapshotBook[*v1.VirtualDiskSnapshot]
}

// NewSnapshots returns an empty store. It calls changed when a snapshot, or its VolumeSnapshot, is created,
// changed or deleted. It calls all when one of the two kinds becomes known.
func NewSnapshots(namespace string, changed func(name string), all func()) *Snapshots {
	of := func(s *v1.VirtualDiskSnapshot) string { return s.Spec.VirtualDiskName }
	return &Snapshots{newSnapshotBook(namespace, snapshot.AppName, of, changed, all)}
}

// Snapshot returns a snapshot, or nil if it does not exist.
func (s *Snapshots) Snapshot(name string) *v1.VirtualDiskSnapshot {
	return s.snapshots.getObject(name).DeepCopy()
}

// Volume returns the VolumeSnapshot for a snapshot's name, or nil if no VolumeSnapshot with our labels exists.
func (s *Snapshots) Volume(of string) *unstructured.Unstructured {
	return s.volumes.getObject(snapshot.VolumeName(of))
}

// Follow keeps the snapshots in sync with the API server until ctx is done.
func (s *Snapshots) Follow(ctx context.Context, from client.WithWatch) {
	s.followSnapshots(ctx, from, &v1.VirtualDiskSnapshot{},
		func() client.ObjectList { return &v1.VirtualDiskSnapshotList{} })
}
