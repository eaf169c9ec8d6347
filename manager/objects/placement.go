package objects

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
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
	if vm.Spec.Affinity != nil {
		affinity, err := as[applycorev1.AffinityApplyConfiguration]("spec.affinity", affinityOf(vm.Spec.Affinity))
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

// affinityOf returns the affinity of a VM's pod. A VM's labels are its pod's, so that terms of VMs
// and pods are terms of pods: they come after those that the VM has for pods. Without them the
// pod's affinity is the VM's as it is.
//
// See docs/decisions/0101-affinity-of-vms.md.
func affinityOf(a *v1.Affinity) *corev1.Affinity {
	of := &corev1.Affinity{
		NodeAffinity: a.NodeAffinity, PodAffinity: a.PodAffinity.DeepCopy(),
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
	return of
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
	p := disk.Place{NodeSelector: maps.Clone(vm.Spec.NodeSelector), Tolerations: vm.Spec.Tolerations}
	if vm.Spec.Affinity != nil {
		p.Affinity = affinityOf(vm.Spec.Affinity)
	}
	if name := vm.Spec.NodeName; name != "" {
		if p.NodeSelector == nil {
			p.NodeSelector = map[string]string{}
		}
		p.NodeSelector[corev1.LabelHostname] = name
	}
	return p
}
