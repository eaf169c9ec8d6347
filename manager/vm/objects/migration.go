package objects

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/runner/config"
)

// PodName returns the name of a pod in a VM's StatefulSet.
func PodName(vm string, ordinal int32) string { return fmt.Sprintf("%s-%d", vm, ordinal) }

// OtherOrdinal returns the ordinal of the target pod in the next migration. Only two ordinals are used, so that
// there are at most two volumes for runner data.
//
// See docs/decisions/0138-migration-in-the-cluster.md.
func OtherOrdinal(vm *v1.VirtualMachine) int32 { return 1 - vm.Status.PodOrdinal }

// replicasAndStart returns the number of pods of a StatefulSet, and the ordinal of the first pod. During a migration
// there are two pods.
func replicasAndStart(vm *v1.VirtualMachine, replicas int32) (pods, start int32) {
	if replicas > 0 && vm.Status.Migration.Active() {
		return 2, 0
	}
	return replicas, vm.Status.PodOrdinal
}

// podClaims returns the claims of a pod. It includes only the pod's own claim for runner data.
func podClaims(claims []Claim, target bool) []Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool {
		return c.Volume == dataVolume && c.target != target
	})
}

// makeReceiver turns a pod into the target of the guest's migration.
func makeReceiver(vm *v1.VirtualMachine, claims []Claim, spec *applycorev1.PodSpecApplyConfiguration) {
	m := vm.Status.Migration
	spec.Containers[0].WithEnv(
		applycorev1.EnvVar().WithName(config.ReceiveVariable).WithValue(string(m.OperationUID)),
		fieldVariable(config.PodIPVariable, "status.podIP"),
	)
	if paths := copiedPaths(m, claims); len(paths) > 0 {
		spec.Containers[0].WithEnv(
			applycorev1.EnvVar().WithName(config.CopiesVariable).WithValue(strings.Join(paths, config.CopiesSeparator)))
	}
	if len(m.NodeSelector) > 0 {
		spec.WithNodeSelector(m.NodeSelector)
	}
	if len(m.NodeSelector) == 0 || usesHost(vm) {
		restrictNode(spec, corev1.NodeSelectorOpNotIn, m.Source.NodeName)
	}
	if OneNode(vm, len(m.Disks) > 0) != "" {
		restrictNode(spec, corev1.NodeSelectorOpIn, m.Source.NodeName)
	}
}

// copiedPaths returns the paths in the target pod of the disks that the migration copies.
func copiedPaths(m *v1.Migration, claims []Claim) (paths []string) {
	for _, d := range m.Disks {
		for _, c := range claims {
			switch {
			case c.Volume != disk.VolumeName(d.Name):
			case c.mount != "":
				paths = append(paths, path.Join(c.mount, disk.FileName))
			default:
				paths = append(paths, "/dev/"+c.Volume)
			}
		}
	}
	return paths
}

// restrictNode adds a requirement that keeps a pod on a node or away from it. Existing requirements stay.
func restrictNode(spec *applycorev1.PodSpecApplyConfiguration, op corev1.NodeSelectorOperator, node string) {
	required := applycorev1.NodeSelectorRequirement().WithKey("metadata.name").WithOperator(op).WithValues(node)
	if spec.Affinity == nil {
		spec.WithAffinity(applycorev1.Affinity())
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.WithNodeAffinity(applycorev1.NodeAffinity())
	}
	of := spec.Affinity.NodeAffinity
	if of.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		of.WithRequiredDuringSchedulingIgnoredDuringExecution(applycorev1.NodeSelector())
	}
	selector := of.RequiredDuringSchedulingIgnoredDuringExecution
	if len(selector.NodeSelectorTerms) == 0 {
		selector.WithNodeSelectorTerms(applycorev1.NodeSelectorTerm())
	}
	for i := range selector.NodeSelectorTerms { // the scheduler needs only one matching term
		selector.NodeSelectorTerms[i].WithMatchFields(required)
	}
}

// Unmovable returns why the guest of a VM can't move to another pod, or "" if the definition shows no obstacle.
// copies means that the migration copies disks where possible. In addition, the runners compare their plans.
func Unmovable(vm *v1.VirtualMachine, copies bool) string {
	for _, ref := range DeviceRefs(vm) {
		if slices.ContainsFunc(vm.Status.BlockDeviceRefs, func(is v1.BlockDeviceStatusRef) bool {
			return is.Hotplugged && is.Kind == ref.Kind && is.Name == ref.Name
		}) {
			return fmt.Sprintf("%s: the %s %s is attached while the guest runs, and another pod would mount it: detach it "+
				"first, or restart the VM", ref.Path, ref.Kind, ref.Name)
		}
	}
	if one := OneNode(vm, copies); one != "" && usesHost(vm) {
		return "it has a tap, which two of its pods can't have on one node, and can't leave that: " + one
	}
	return ""
}

// usesHost reports whether the pods of a VM can't share a node: a tap has the same name in both.
func usesHost(vm *v1.VirtualMachine) bool {
	return slices.ContainsFunc(vm.Spec.VM.Networks, func(n v1.Network) bool { return n.Tap != nil })
}

// OneNode returns why the guest of a VM can't leave its node, or "" if the definition shows no obstacle. copies
// means that the migration copies disks where possible.
func OneNode(vm *v1.VirtualMachine, copies bool) string {
	if vm.Spec.NodeName != "" {
		return "spec.nodeName names it"
	}
	for i, d := range vm.Spec.VM.Disks {
		of := d.VolumeClaimTemplate
		if of != nil && !slices.Contains(of.Spec.AccessModes, corev1.ReadWriteMany) {
			return fmt.Sprintf("spec.vm.disks[%d].volumeClaimTemplate.spec.accessModes doesn't have ReadWriteMany: other "+
				"nodes can't use the disk at the same time", i)
		}
	}
	for _, ref := range DeviceRefs(vm) {
		if !isShared(vm, ref) && !(copies && ref.Kind == v1.KindVirtualDisk) {
			return fmt.Sprintf("%s: the %s %s doesn't have the access mode ReadWriteMany: other nodes can't use it at the "+
				"same time", ref.Path, ref.Kind, ref.Name)
		}
	}
	return ""
}

// CopiesDisks reports whether a migration copies the VM's disks that only its node can access. o contains the
// options of an operation; nil means the VM's settings. A migration to another pod on the same node needs no copies.
func CopiesDisks(vm *v1.VirtualMachine, o *v1.MigrateOptions) bool {
	switch node := vm.Status.NodeName; {
	case o != nil && o.CopyDisks:
		return true
	case o != nil && node != "" && o.NodeSelector[corev1.LabelHostname] == node:
		return false
	}
	return vm.Spec.Migration != nil && vm.Spec.Migration.CopyDisks
}

// isShared reports whether two nodes can use a disk or image at the same time.
func isShared(vm *v1.VirtualMachine, ref DeviceRef) bool {
	return slices.ContainsFunc(vm.Status.BlockDeviceRefs, func(is v1.BlockDeviceStatusRef) bool {
		return is.Kind == ref.Kind && is.Name == ref.Name && is.AccessMode == corev1.ReadWriteMany
	})
}

// LocalDisks returns the VirtualDisks of a VM that only one node can use at a time.
func LocalDisks(vm *v1.VirtualMachine) (names []string) {
	for _, ref := range DeviceRefs(vm) {
		if ref.Kind == v1.KindVirtualDisk && !isShared(vm, ref) {
			names = append(names, ref.Name)
		}
	}
	return names
}

// Update returns how pending changes can reach a running guest without a restart: by a migration to a pod that is
// created from the current definition. If possible, both pods run on the guest's node: the second pod can mount the
// volumes of the first, and no other node is necessary. If a restart is necessary, why is the reason.
//
// See docs/decisions/0141-updates-by-migration.md.
func Update(vm *v1.VirtualMachine, changes []v1.RestartAwaitingChange, node string) (
	how *v1.MigrateOptions, why string,
) {
	place := usesHost(vm)
	for _, c := range changes {
		if !reachesGuest(c) {
			return nil, c.Path + " takes a restart"
		}
		place = place || ofPlace(c)
	}
	if why = Unmovable(vm, CopiesDisks(vm, nil)); why == "" && place {
		why = OneNode(vm, CopiesDisks(vm, nil))
	}
	switch {
	case why != "":
		return nil, why
	case place:
		return &v1.MigrateOptions{}, ""
	}
	return &v1.MigrateOptions{NodeSelector: map[string]string{corev1.LabelHostname: node}}, ""
}
