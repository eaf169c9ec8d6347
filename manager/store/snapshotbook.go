package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/snapshot"
	"vmop/manager/vm/objects"
)

// snapshotBook stores the snapshots of one kind in one namespace, and their VolumeSnapshots.
type snapshotBook[T interface {
	comparable
	client.Object
}] struct {
	*notice

	namespace string
	app       string         // label of the VolumeSnapshots
	of        func(T) string // returns the name of the disk or the VM
	snapshots *few[T]
	volumes   *few[*unstructured.Unstructured]
}

// newSnapshotBook returns an empty book. It calls changed when a snapshot, or one of its VolumeSnapshots, is
// created, changed or deleted. It calls all when one of the two kinds becomes known.
func newSnapshotBook[T interface {
	comparable
	client.Object
}](namespace, app string, of func(T) string, changed func(name string), all func()) snapshotBook[T] {
	n := &notice{}
	show := n.thenNotify(func(string) {})
	return snapshotBook[T]{
		notice: n, namespace: namespace, app: app, of: of,
		snapshots: newFew(func(s T) { s.SetManagedFields(nil) },
			func(was, is T) {
				changed(presentOf(was, is).GetName())
				show(of(presentOf(was, is)))
			}, all),
		volumes: newFew(func(v *unstructured.Unstructured) { v.SetManagedFields(nil) },
			func(was, is *unstructured.Unstructured) {
				changed(presentOf(was, is).GetLabels()[objects.LabelInstance])
			}, all),
	}
}

// presentOf returns the current object, or the previous object if it was deleted.
func presentOf[T comparable](was, is T) T {
	var none T
	if is == none {
		return was
	}
	return is
}

// Names returns the names of all snapshots.
func (s *snapshotBook[T]) Names() (names []string) {
	for _, one := range s.snapshots.listObjects() {
		names = append(names, one.GetName())
	}
	return names
}

// Of returns the names of the snapshots of a disk or a VM.
func (s *snapshotBook[T]) Of(subject string) (names []string) {
	for _, one := range s.snapshots.listObjects() {
		if s.of(one) == subject {
			names = append(names, one.GetName())
		}
	}
	return names
}

// Unavailable returns the reasons why snapshots and VolumeSnapshots are not known; "" if they are.
func (s *snapshotBook[T]) Unavailable() (snapshots, volumes string) {
	return s.snapshots.whyUnknown(), s.volumes.whyUnknown()
}

// followSnapshots keeps the snapshots in sync with the API server until ctx is done.
func (s *snapshotBook[T]) followSnapshots(
	ctx context.Context, from client.WithWatch, example T, list func() client.ObjectList,
) {
	var running sync.WaitGroup
	defer running.Wait()
	here := client.InNamespace(s.namespace)
	running.Go(func() { followFew(ctx, from, s.snapshots, example, list, here) })
	volume := &unstructured.Unstructured{}
	volume.SetGroupVersionKind(snapshot.VolumeKind)
	followFew(ctx, from, s.volumes, volume, func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(snapshot.VolumeKind.GroupVersion().WithKind(snapshot.VolumeKind.Kind + "List"))
		return list
	}, here, client.MatchingLabels{objects.LabelName: s.app})
}
