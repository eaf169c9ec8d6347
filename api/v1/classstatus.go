package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClassPhase is the state of a class in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready;Terminating
type ClassPhase string

// The phases of a class.
const (
	ClassPending     ClassPhase = "Pending"     // no VM can run by it yet: the condition Ready says why
	ClassReady       ClassPhase = "Ready"       // there are nodes for its VMs
	ClassTerminating ClassPhase = "Terminating" // it is being deleted, and waits for its VMs
)

// Conditions of a class besides Ready.
const (
	// ConditionDefaultClass of a class with the annotation AnnotationDefaultClass reports
	// whether new VMs get it.
	ConditionDefaultClass = "Default"
)

// VirtualMachineClassStatus is where VMs of a class can run, and who uses it. Managers of
// several namespaces write it: what is the same for all, and each its part of usedBy.
type VirtualMachineClassStatus struct {
	// ObservedGeneration is the generation that this is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is the state in one word. The condition Ready says why.
	//
	// +optional
	Phase ClassPhase `json:"phase,omitempty"`
	// AvailableNodes are the nodes that can run VMs of the class by their labels, taints and
	// features, sorted; at most 256 of them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	AvailableNodes []string `json:"availableNodes,omitempty"`
	// MaxAllocatableResources are the CPUs and the memory that the largest pods can have on
	// these nodes, while nothing else runs there.
	//
	// +optional
	MaxAllocatableResources corev1.ResourceList `json:"maxAllocatableResources,omitempty"`
	// CPUFeatures are those of the type Discovery.
	//
	// +optional
	CPUFeatures *DiscoveredFeatures `json:"cpuFeatures,omitempty"`
	// UsedBy are the VMs of the class, by namespace. Each manager writes those of its own.
	//
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=1024
	UsedBy []ClassUse `json:"usedBy,omitempty"`
	// Conditions: Ready, and Default.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DiscoveredFeatures are features of CPUs, by QEMU's names, sorted.
type DiscoveredFeatures struct {
	// Enabled are what the guests have besides the base model: what all selected nodes have.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Enabled []string `json:"enabled,omitempty"`
	// NotEnabledCommon are those that only some of the nodes have.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NotEnabledCommon []string `json:"notEnabledCommon,omitempty"`
}

// ClassUse is who uses a class in a namespace.
type ClassUse struct {
	// Namespace of the VMs.
	//
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Count of the VMs.
	//
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// VirtualMachines are their names, sorted; at most 16 of them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	VirtualMachines []string `json:"virtualMachines,omitempty"`
}
