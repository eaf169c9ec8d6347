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

// place passes on where the VM's pod is to run.
func place(vm *v1.VirtualMachine, spec *applycorev1.PodSpecApplyConfiguration) error {
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
		affinity, err := as[applycorev1.AffinityApplyConfiguration]("spec.affinity", of)
		if err != nil {
			return err
		}
		spec.WithAffinity(affinity)
	}
	for i := range vm.Spec.Tolerations {
		toleration, err := as[applycorev1.TolerationApplyConfiguration]("spec.tolerations", &vm.Spec.Tolerations[i])
		if err != nil {
			return err
		}
		spec.WithTolerations(toleration)
	}
	for i := range vm.Spec.TopologySpreadConstraints {
		const path = "spec.topologySpreadConstraints"
		one := &vm.Spec.TopologySpreadConstraints[i]
		constraint, err := as[applycorev1.TopologySpreadConstraintApplyConfiguration](path, one)
		if err != nil {
			return err
		}
		spec.WithTopologySpreadConstraints(constraint)
	}
	return nil
}

// affinityOf returns the affinity of a VM's pod; nil if it has none. A VM's labels are its pod's, so that terms of VMs
// and pods are terms of pods: they come after those that the VM has for pods. Without them, and without an
// architecture, the pod's affinity is the VM's as it is.
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
			add(with, &of.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				&of.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if without := a.VirtualMachineAndPodAntiAffinity; without != nil {
			of.PodAntiAffinity = cmp.Or(of.PodAntiAffinity, &corev1.PodAntiAffinity{})
			add(without, &of.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
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

// requireLabel adds a label of nodes to what an affinity requires.
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
	for i := range terms { // one of them must match; one that is empty matches no node
		if t := &terms[i]; len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			t.MatchExpressions = append(t.MatchExpressions, required)
		}
	}
}

// NodeArchitecture returns the architecture of the nodes on which a VM runs, as they have it in the label
// kubernetes.io/arch; "" if that is up to its definition. It is the guest's: KVM runs no other, and the runner's image
// for an architecture emulates no other. Where an image does, the VM asks for its nodes by that label.
//
// See docs/decisions/0156-architecture-of-nodes.md.
func NodeArchitecture(vm *v1.VirtualMachine) string {
	emulated := vm.Spec.VM.Accelerator == string(vmspec.AcceleratorTCG)
	if vm.Spec.NodeName != "" || emulated && namesArchitecture(vm) {
		return ""
	}
	return vm.Status.Architecture
}

// namesArchitecture reports whether a VM requires the architecture of its nodes itself.
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

// ForArchitecture returns a VM whose status has the architecture of its guest: a shallow copy, if it has another.
func ForArchitecture(vm *v1.VirtualMachine, architecture string) *v1.VirtualMachine {
	if vm.Status.Architecture == architecture {
		return vm
	}
	with := *vm
	with.Status.Architecture = architecture
	return &with
}

// add adds the terms of VMs and pods to what a pod requires and prefers.
func add(terms *v1.VirtualMachineAndPodAffinity,
	required *[]corev1.PodAffinityTerm, preferred *[]corev1.WeightedPodAffinityTerm,
) {
	*required = append(*required, terms.Required...)
	for _, p := range terms.Preferred {
		*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{
			Weight: p.Weight, PodAffinityTerm: p.VirtualMachineAndPodAffinityTerm,
		})
	}
}

// PlaceOf returns where the pod of a VM may run, for a pod that is there before it.
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
