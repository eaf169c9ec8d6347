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

// MachineSnapshots has the snapshots of the VMs of one namespace, and their VolumeSnapshots. A manager
// works without either. Its methods may be called by several goroutines.
type MachineSnapshots struct {
	namespace string
	snapshots *few[*v1.VirtualMachineSnapshot]
	volumes   *few[*unstructured.Unstructured]
}

// NewMachineSnapshots returns one that is empty. changed is called for each snapshot that is new, has
// changed or is gone, or whose VolumeSnapshots have; all is called when one kind is known that wasn't.
func NewMachineSnapshots(namespace string, changed func(name string), all func()) *MachineSnapshots {
	return &MachineSnapshots{
		namespace: namespace,
		snapshots: newFew(func(s *v1.VirtualMachineSnapshot) { s.ManagedFields = nil },
			func(was, is *v1.VirtualMachineSnapshot) {
				if is == nil {
					is = was
				}
				changed(is.Name)
			}, all),
		volumes: newFew(func(v *unstructured.Unstructured) { v.SetManagedFields(nil) },
			func(was, is *unstructured.Unstructured) {
				if is == nil {
					is = was
				}
				changed(is.GetLabels()[objects.LabelInstance])
			}, all),
	}
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

// Names returns the names of all snapshots.
func (s *MachineSnapshots) Names() (names []string) {
	for _, one := range s.snapshots.list() {
		names = append(names, one.Name)
	}
	return names
}

// Of returns the names of the snapshots of a VM.
func (s *MachineSnapshots) Of(vm string) (names []string) {
	for _, one := range s.snapshots.list() {
		if one.Spec.VirtualMachineName == vm {
			names = append(names, one.Name)
		}
	}
	return names
}

// Unavailable returns why snapshots are not known, and why VolumeSnapshots are not; "" if they are.
func (s *MachineSnapshots) Unavailable() (snapshots, volumes string) {
	return s.snapshots.why(), s.volumes.why()
}

// Follow keeps them as the API server has them, until ctx is done.
func (s *MachineSnapshots) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		followFew(ctx, from, s.snapshots, &v1.VirtualMachineSnapshot{},
			func() client.ObjectList { return &v1.VirtualMachineSnapshotList{} }, client.InNamespace(s.namespace))
	})
	followVolumeSnapshots(ctx, from, s.volumes, s.namespace, snapshot.MachineAppName)
}

// followVolumeSnapshots keeps the VolumeSnapshots of a namespace that have the label of an application.
func followVolumeSnapshots(ctx context.Context, from client.WithWatch, to *few[*unstructured.Unstructured],
	namespace, app string,
) {
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(snapshot.VolumeKind)
	followFew(ctx, from, to, example, func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(snapshot.VolumeKind.GroupVersion().WithKind(snapshot.VolumeKind.Kind + "List"))
		return list
	}, client.InNamespace(namespace), client.MatchingLabels{objects.LabelName: app})
}
