package v1

import corev1 "k8s.io/api/core/v1"

// Affinity says near what the VM is to run. Terms that speak of VMs and pods are compared with
// the labels of pods, and a VM's labels are its pod's.
type Affinity struct {
	// NodeAffinity is that of the pod: which nodes the VM may run on, or prefers.
	//
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// PodAffinity is that of the pod. It adds to virtualMachineAndPodAffinity, and means the same.
	//
	// +optional
	PodAffinity *corev1.PodAffinity `json:"podAffinity,omitempty"`
	// PodAntiAffinity is that of the pod. It adds to virtualMachineAndPodAntiAffinity, and means the same.
	//
	// +optional
	PodAntiAffinity *corev1.PodAntiAffinity `json:"podAntiAffinity,omitempty"`
	// VirtualMachineAndPodAffinity has the VM run where certain VMs and pods run.
	//
	// +optional
	VirtualMachineAndPodAffinity *VirtualMachineAndPodAffinity `json:"virtualMachineAndPodAffinity,omitempty"`
	// VirtualMachineAndPodAntiAffinity has the VM run where certain VMs and pods don't run.
	//
	// +optional
	VirtualMachineAndPodAntiAffinity *VirtualMachineAndPodAffinity `json:"virtualMachineAndPodAntiAffinity,omitempty"`
}

// VirtualMachineAndPodAffinity are the terms of an affinity, or of an anti-affinity. They have an
// effect when the VM starts.
type VirtualMachineAndPodAffinity struct {
	// Required is what must hold: the VM waits for a node where all of it does.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:XValidation:rule="size(self.topologyKey) > 0",fieldPath=".topologyKey",message="want the label of nodes that says what is one place, such as kubernetes.io/hostname"
	Required []corev1.PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Preferred is what is better: of the nodes that can
	// run the VM, the one with the greatest sum of weights is chosen.
	//
	// +optional
	// +listType=atomic
	Preferred []VirtualMachineAndPodPreference `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// VirtualMachineAndPodPreference is a term with a weight.
type VirtualMachineAndPodPreference struct {
	// Weight is how much it counts: 1 to 100.
	//
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="want 1 to 100"
	Weight int32 `json:"weight"`
	// VirtualMachineAndPodAffinityTerm is what is preferred (kubectl explain
	// pod.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution).
	//
	// +kubebuilder:validation:XValidation:rule="size(self.topologyKey) > 0",fieldPath=".topologyKey",message="want the label of nodes that says what is one place, such as kubernetes.io/hostname"
	VirtualMachineAndPodAffinityTerm corev1.PodAffinityTerm `json:"virtualMachineAndPodAffinityTerm"`
}
