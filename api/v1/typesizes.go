package v1

import "k8s.io/apimachinery/pkg/api/resource"

// TypeSizes are CPUs and memory that a VM type decided. A running VM keeps them until its definition changes.
type TypeSizes struct {
	// Maximum number of CPUs.
	//
	// +optional
	MaximumCPUs *int32 `json:"maximumCpus,omitempty"`
	// Number of CPUs.
	//
	// +optional
	CurrentCPUs *int32 `json:"currentCpus,omitempty"`
	// Maximum memory.
	//
	// +optional
	MaximumRAM *resource.Quantity `json:"maximumRam,omitempty"`
	// Memory that the guest may use.
	//
	// +optional
	CurrentRAM *resource.Quantity `json:"currentRam,omitempty"`
}
