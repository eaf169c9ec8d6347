package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/snapshot"
)

// Snapshots has the snapshots of the disks of one namespace, and their VolumeSnapshots. A manager
// works without either. Its methods may be called by several goroutines.
type Snapshots struct {
	namespace string
	snapshots *few[*v1.VirtualDiskSnapshot]
	volumes   *few[*unstructured.Unstructured]
}

// NewSnapshots returns one that is empty. changed is called for each snapshot that is new, has
// changed or is gone, or whose VolumeSnapshot has; all is called when one kind is known that wasn't.
func NewSnapshots(namespace string, changed func(name string), all func()) *Snapshots {
	return &Snapshots{
		namespace: namespace,
		snapshots: newFew(func(s *v1.VirtualDiskSnapshot) { s.ManagedFields = nil },
			func(was, is *v1.VirtualDiskSnapshot) { changed(eitherName(was, is)) }, all),
		volumes: newFew(func(v *unstructured.Unstructured) { v.SetManagedFields(nil) },
			func(was, is *unstructured.Unstructured) {
				if is == nil {
					is = was
				}
				changed(is.GetLabels()[objects.LabelInstance])
			}, all),
	}
}

func eitherName(was, is *v1.VirtualDiskSnapshot) string {
	if is == nil {
		is = was
	}
	return is.Name
}

// Snapshot returns a snapshot; nil if there is none of that name.
func (s *Snapshots) Snapshot(name string) *v1.VirtualDiskSnapshot {
	return s.snapshots.get(name).DeepCopy()
}

// Volume returns the VolumeSnapshot of a snapshot's name, nil if there is none with our labels.
func (s *Snapshots) Volume(of string) *unstructured.Unstructured {
	return s.volumes.get(snapshot.VolumeName(of))
}

// Names returns the names of all snapshots.
func (s *Snapshots) Names() (names []string) {
	for _, one := range s.snapshots.list() {
		names = append(names, one.Name)
	}
	return names
}

// Of returns the names of the snapshots of a disk.
func (s *Snapshots) Of(disk string) (names []string) {
	for _, one := range s.snapshots.list() {
		if one.Spec.VirtualDiskName == disk {
			names = append(names, one.Name)
		}
	}
	return names
}

// Unavailable returns why snapshots are not known, and why VolumeSnapshots are not; "" if they are.
func (s *Snapshots) Unavailable() (snapshots, volumes string) {
	return s.snapshots.why(), s.volumes.why()
}

// Follow keeps them as the API server has them, until ctx is done.
func (s *Snapshots) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	here := client.InNamespace(s.namespace)
	running.Go(func() {
		followFew(ctx, from, s.snapshots, &v1.VirtualDiskSnapshot{},
			func() client.ObjectList { return &v1.VirtualDiskSnapshotList{} }, here)
	})
	followVolumeSnapshots(ctx, from, s.volumes, s.namespace, snapshot.AppName)
}
