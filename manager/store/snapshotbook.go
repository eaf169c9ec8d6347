package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
	"vmop/manager/snapshot"
)

// snapshotBook has the snapshots of one kind in one namespace, and their VolumeSnapshots.
type snapshotBook[T interface {
	comparable
	client.Object
}] struct {
	*notice

	namespace string
	app       string         // label of the VolumeSnapshots
	of        func(T) string // the name of the disk or the VM
	snapshots *few[T]
	volumes   *few[*unstructured.Unstructured]
}

// newSnapshotBook returns one that is empty. changed is called for each snapshot that is new, has
// changed or is gone, or whose VolumeSnapshots have; all is called when one kind is known that wasn't.
func newSnapshotBook[T interface {
	comparable
	client.Object
}](namespace, app string, of func(T) string, changed func(name string), all func()) snapshotBook[T] {
	n := &notice{}
	show := n.after(func(string) {})
	return snapshotBook[T]{
		notice: n, namespace: namespace, app: app, of: of,
		snapshots: newFew(func(s T) { s.SetManagedFields(nil) },
			func(was, is T) {
				changed(present(was, is).GetName())
				show(of(present(was, is)))
			}, all),
		volumes: newFew(func(v *unstructured.Unstructured) { v.SetManagedFields(nil) },
			func(was, is *unstructured.Unstructured) {
				changed(present(was, is).GetLabels()[objects.LabelInstance])
			}, all),
	}
}

// present returns what there is, or what there was if it is gone.
func present[T comparable](was, is T) T {
	var none T
	if is == none {
		return was
	}
	return is
}

// Names returns the names of all snapshots.
func (s *snapshotBook[T]) Names() (names []string) {
	for _, one := range s.snapshots.list() {
		names = append(names, one.GetName())
	}
	return names
}

// Of returns the names of the snapshots of a disk or a VM.
func (s *snapshotBook[T]) Of(subject string) (names []string) {
	for _, one := range s.snapshots.list() {
		if s.of(one) == subject {
			names = append(names, one.GetName())
		}
	}
	return names
}

// Unavailable returns why snapshots are not known, and why VolumeSnapshots are not; "" if they are.
func (s *snapshotBook[T]) Unavailable() (snapshots, volumes string) {
	return s.snapshots.why(), s.volumes.why()
}

// follow keeps them as the API server has them, until ctx is done.
func (s *snapshotBook[T]) follow(
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
