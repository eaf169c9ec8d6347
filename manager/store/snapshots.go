package store

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
)

// Snapshots has the snapshots of the disks of one namespace, and their VolumeSnapshots. A manager
// works without either. Its methods may be called by several goroutines.
type Snapshots struct {
	snapshotBook[*v1.VirtualDiskSnapshot]
}

// NewSnapshots returns one that is empty. changed is called for each snapshot that is new, has
// changed or is gone, or whose VolumeSnapshot has; all is called when one kind is known that wasn't.
func NewSnapshots(namespace string, changed func(name string), all func()) *Snapshots {
	of := func(s *v1.VirtualDiskSnapshot) string { return s.Spec.VirtualDiskName }
	return &Snapshots{newSnapshotBook(namespace, snapshot.AppName, of, changed, all)}
}

// Snapshot returns a snapshot; nil if there is none of that name.
func (s *Snapshots) Snapshot(name string) *v1.VirtualDiskSnapshot {
	return s.snapshots.get(name).DeepCopy()
}

// Volume returns the VolumeSnapshot of a snapshot's name, nil if there is none with our labels.
func (s *Snapshots) Volume(of string) *unstructured.Unstructured {
	return s.volumes.get(snapshot.VolumeName(of))
}

// Follow keeps them as the API server has them, until ctx is done.
func (s *Snapshots) Follow(ctx context.Context, from client.WithWatch) {
	s.follow(ctx, from, &v1.VirtualDiskSnapshot{}, func() client.ObjectList { return &v1.VirtualDiskSnapshotList{} })
}
