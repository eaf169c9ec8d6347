package pool

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// Machine returns the VM with this number to create from the pool's template. A pool uses each number once, so that a
// new VM never takes over the leftovers of an old VM.
func (p Pool) Machine(number int32) *v1.VirtualMachine {
	t := p.Spec.Template.DeepCopy()
	vm := &v1.VirtualMachine{Spec: t.Spec}
	vm.Name, vm.Namespace = fmt.Sprintf("%s-%d", p.Name, number), p.Namespace
	vm.Annotations = t.Metadata.Annotations
	vm.Labels = maps.Clone(t.Metadata.Labels)
	if vm.Labels == nil {
		vm.Labels = map[string]string{}
	}
	vm.Labels[v1.LabelPool] = p.Name
	owner := metav1.NewControllerRef(p.VmPool, v1.GroupVersion().WithKind(kindOfPool))
	owner.BlockOwnerDeletion = nil // the pool may be deleted before its VMs
	vm.OwnerReferences = []metav1.OwnerReference{*owner}
	if !slices.Contains(vm.Spec.Pools, p.Name) {
		vm.Spec.Pools = append(vm.Spec.Pools, p.Name)
	}
	for _, d := range t.Disks {
		vm.Spec.BlockDeviceRefs = append(vm.Spec.BlockDeviceRefs,
			v1.BlockDeviceRef{Kind: v1.KindVirtualDisk, Name: diskName(vm.Name, d)})
	}
	return vm
}

func diskName(vm string, d v1.DiskTemplate) string { return vm + "-" + d.Name }

// Disks returns the disks for a VM of the pool. The VM owns them.
func (p Pool) Disks(m Member) (disks []*v1.VirtualDisk) {
	if p.Spec.Template == nil || !p.hasMade(m) {
		return nil
	}
	owner := metav1.ObjectMeta{Name: m.Name, UID: m.UID}
	for _, d := range p.Spec.Template.Disks {
		disk := &v1.VirtualDisk{Spec: *d.Spec.DeepCopy()}
		disk.Name, disk.Namespace = diskName(m.Name, d), p.Namespace
		disk.Labels = map[string]string{v1.LabelPool: p.Name}
		disk.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(&owner, v1.GroupVersion().WithKind("VirtualMachine")),
		}
		disks = append(disks, disk)
	}
	return disks
}
