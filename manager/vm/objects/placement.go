package objects

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/vmspec"
)

// placePod sets where the VM's pod may run.
func placePod(vm *v1.VirtualMachine, spec *applycorev1.PodSpecApplyConfiguration) error {
	if name := vm.Spec.NodeName; name != "" {
		spec.WithNodeName(name)
	}
	if class := vm.Spec.PriorityClassName; class != "" {
		spec.WithPriorityClassName(class)
	}
	if len(vm.Spec.NodeSelector) > 0 {
		spec.WithNodeSelector(vm.Spec.NodeSelector)
	}
	if of := affinityOf(vm); of != nil {
		affinity, err := asApplied[applycorev1.AffinityApplyConfiguration]("spec.affinity", of)
		if err != nil {
			return err
		}
		spec.WithAffinity(affinity)
	}
	for i := range vm.Spec.Tolerations {
		toleration, err := asApplied[applycorev1.TolerationApplyConfiguration]("spec.tolerations",
			&vm.Spec.Tolerations[i])
		if err != nil {
			return err
		}
		spec.WithTolerations(toleration)
	}
	for i := range vm.Spec.TopologySpreadConstraints {
		const path = "spec.topologySpreadConstraints"
		one := &vm.Spec.TopologySpreadConstraints[i]
		constraint, err := asApplied[applycorev1.TopologySpreadConstraintApplyConfiguration](path, one)
		if err != nil {
			return err
		}
		spec.WithTopologySpreadConstraints(constraint)
	}
	return nil
}

// affinityOf returns the affinity of a VM's pod, or nil without an affinity. The pod carries the VM's labels, so
// terms about VMs and pods become terms about pods. They follow the VM's own terms about pods. Without such terms
// and without an architecture, the pod's affinity equals the VM's.
//
// See docs/decisions/0101-affinity-of-vms.md.
func affinityOf(vm *v1.VirtualMachine) (of *corev1.Affinity) {
	if a := vm.Spec.Affinity; a != nil {
		of = &corev1.Affinity{
			NodeAffinity: a.NodeAffinity.DeepCopy(), PodAffinity: a.PodAffinity.DeepCopy(),
			PodAntiAffinity: a.PodAntiAffinity.DeepCopy(),
		}
		if with := a.VirtualMachineAndPodAffinity; with != nil {
			of.PodAffinity = cmp.Or(of.PodAffinity, &corev1.PodAffinity{})
			addPodTerms(with, &of.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				&of.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if without := a.VirtualMachineAndPodAntiAffinity; without != nil {
			of.PodAntiAffinity = cmp.Or(of.PodAntiAffinity, &corev1.PodAntiAffinity{})
			addPodTerms(without, &of.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				&of.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if architecture := NodeArchitecture(vm); architecture != "" {
		of = cmp.Or(of, &corev1.Affinity{})
		of.NodeAffinity = cmp.Or(of.NodeAffinity, &corev1.NodeAffinity{})
		requireLabel(of.NodeAffinity, corev1.LabelArchStable, architecture)
	}
	return of
}

// requireLabel adds a node label to the requirements of an affinity.
func requireLabel(of *corev1.NodeAffinity, label, value string) {
	required := corev1.NodeSelectorRequirement{
		Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
	}
	if of.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		only := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{required}}
		of.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{only},
		}
		return
	}
	terms := of.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms { // terms are alternatives; an empty term matches no node
		if t := &terms[i]; len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, required)
		}
	}
}

// NodeArchitecture returns the architecture of the nodes on which a VM must run, as in the node label
// kubernetes.io/arch, or "" if the VM's definition decides. It is the guest's architecture: KVM can't run another,
// and the runner's image for an architecture can't emulate another. If an image can, the VM selects its nodes with
// this label.
//
// See docs/decisions/0156-architecture-of-nodes.md.
func NodeArchitecture(vm *v1.VirtualMachine) string {
	emulated := vm.Spec.VM.Accelerator == string(vmspec.AcceleratorTCG)
	if vm.Spec.NodeName != "" || emulated && namesArchitecture(vm) {
		return ""
	}
	return vm.Status.Architecture
}

// namesArchitecture reports whether a VM's definition requires an architecture of its nodes.
func namesArchitecture(vm *v1.VirtualMachine) bool {
	if vm.Spec.NodeSelector[corev1.LabelArchStable] != "" {
		return true
	}
	a := vm.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == corev1.LabelArchStable
		})
	})
}

// ForArchitecture returns the VM with the architecture of its guest in its status. It makes a shallow copy if the
// status differs.
func ForArchitecture(vm *v1.VirtualMachine, architecture string) *v1.VirtualMachine {
	if vm.Status.Architecture == architecture {
		return vm
	}
	with := *vm
	with.Status.Architecture = architecture
	return &with
}

// addPodTerms adds the terms about VMs and pods to the required and preferred terms of a pod.
func addPodTerms(terms *v1.VirtualMachineAndPodAffinity,
	required *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm,
) {
	*required = append(*required, terms.Required...)
	for _, p := range terms.Preferred {
		*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{
			Weight: p.Weight, PodAffinityTerm: p.VirtualMachineAndPodAffinityTerm,
		})
	}
}

// PlaceOf returns where the pod of a VM may run. It is used for pods that run before the VM's pod exists.
func PlaceOf(vm *v1.VirtualMachine) disk.Place {
	p := disk.Place{
		NodeSelector: maps.Clone(vm.Spec.NodeSelector), Affinity: affinityOf(vm), Tolerations: vm.Spec.Tolerations,
	}
	if name := vm.Spec.NodeName; name != "" {
		if p.NodeSelector == nil {
			p.NodeSelector = map[string]string{}
		}
		p.NodeSelector[corev1.LabelHostname] = name
	}
	return p
}
