package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClassPhase is the phase of a class.
//
// +kubebuilder:validation:Enum=Pending;Ready;Terminating
type ClassPhase string

// The phases of a class.
const (
	ClassPending     ClassPhase = "Pending"     // no VM can use it yet, see the condition Ready
	ClassReady       ClassPhase = "Ready"       // nodes for its VMs exist
	ClassTerminating ClassPhase = "Terminating" // it is being deleted after its VMs
)

// Conditions of a class in addition to Ready.
const (
	// ConditionDefaultClass reports whether new VMs get a class with the annotation
	// AnnotationDefaultClass.
	ConditionDefaultClass = "Default"
)

// VirtualMachineClassStatus lists the nodes that can run VMs of a class and the VMs that use it.
// Managers of several namespaces write it: each manager writes its own entries of usedBy, and all
// write the same values elsewhere.
type VirtualMachineClassStatus struct {
	// Generation of the resource that this status reflects.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Current phase: Pending, Ready or Terminating. The condition Ready contains the reason.
	//
	// +optional
	Phase ClassPhase `json:"phase,omitempty"`
	// Names of the nodes that can run VMs of the class, by their labels, taints and CPU features.
	// Sorted; at most 256 names.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	AvailableNodes []string `json:"availableNodes,omitempty"`
	// CPUs and memory of the largest pod that fits on one of these nodes when nothing else is
	// running there.
	//
	// +optional
	MaxAllocatableResources corev1.ResourceList `json:"maxAllocatableResources,omitempty"`
	// CPU features found for the type Discovery.
	//
	// +optional
	CPUFeatures *DiscoveredFeatures `json:"cpuFeatures,omitempty"`
	// VMs of the class, by namespace. Each manager writes the entries of its namespaces.
	//
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=1024
	UsedBy []ClassUse `json:"usedBy,omitempty"`
	// Conditions of the class: Ready and Default.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DiscoveredFeatures are sorted CPU features, by QEMU's names.
type DiscoveredFeatures struct {
	// Features that the guests get in addition to the base model. All selected nodes have them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Enabled []string `json:"enabled,omitempty"`
	// Features that only some of the selected nodes have.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NotEnabledCommon []string `json:"notEnabledCommon,omitempty"`
}

// ClassUse lists the VMs of a class in a namespace.
type ClassUse struct {
	// Namespace of the VMs.
	//
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Number of VMs.
	//
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// Names of the VMs. Sorted; at most 16 names.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	VirtualMachines []string `json:"virtualMachines,omitempty"`
}
