package v1

import corev1 "k8s.io/api/core/v1"

// Affinity defines near which nodes, VMs and pods the VM runs. Terms about VMs and pods match pod
// labels; a VM's pod has the VM's labels.
type Affinity struct {
	// Node affinity of the pod: nodes that the VM must run on, or prefers.
	//
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Pod affinity of the pod. It is combined with virtualMachineAndPodAffinity and has the same
	// meaning.
	//
	// +optional
	PodAffinity *corev1.PodAffinity `json:"podAffinity,omitempty"`
	// Pod anti-affinity of the pod. It is combined with virtualMachineAndPodAntiAffinity and has
	// the same meaning.
	//
	// +optional
	PodAntiAffinity *corev1.PodAntiAffinity `json:"podAntiAffinity,omitempty"`
	// VMs and pods that the VM runs close to.
	//
	// +optional
	VirtualMachineAndPodAffinity *VirtualMachineAndPodAffinity `json:"virtualMachineAndPodAffinity,omitempty"`
	// VMs and pods that the VM avoids.
	//
	// +optional
	VirtualMachineAndPodAntiAffinity *VirtualMachineAndPodAffinity `json:"virtualMachineAndPodAntiAffinity,omitempty"`
}

// VirtualMachineAndPodAffinity contains the terms of an affinity or an anti-affinity. They are
// evaluated when the VM starts.
type VirtualMachineAndPodAffinity struct {
	// Terms that must be satisfied. The VM waits until a node satisfies all of them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:XValidation:rule="size(self.topologyKey) > 0",fieldPath=".topologyKey",message="must be the label of nodes that defines a place, such as kubernetes.io/hostname"
	Required []corev1.PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Preferred terms. Among suitable nodes, the node with the greatest sum of weights is chosen.
	//
	// +optional
	// +listType=atomic
	Preferred []VirtualMachineAndPodPreference `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// VirtualMachineAndPodPreference is a term with a weight.
type VirtualMachineAndPodPreference struct {
	// Weight of the term, 1 to 100.
	//
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="must be 1 to 100"
	Weight int32 `json:"weight"`
	// Preferred term (see kubectl explain
	// pod.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution).
	//
	// +kubebuilder:validation:XValidation:rule="size(self.topologyKey) > 0",fieldPath=".topologyKey",message="must be the label of nodes that defines a place, such as kubernetes.io/hostname"
	VirtualMachineAndPodAffinityTerm corev1.PodAffinityTerm `json:"virtualMachineAndPodAffinityTerm"`
}
