package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Disruptions are how the VM may be interrupted.
type Disruptions struct {
	// RestartApprovalMode says who restarts the VM when changes await that: Manual, a user, or
	// Automatic, the manager, which asks the guest to shut down. Default: Manual.
	//
	// +optional
	// +kubebuilder:validation:Enum=Manual;Automatic
	RestartApprovalMode RestartApprovalMode `json:"restartApprovalMode,omitempty"`
}

// RestartApprovalMode says who restarts a VM when changes await that.
type RestartApprovalMode string

// The modes of approval.
const (
	RestartManual    RestartApprovalMode = "Manual"
	RestartAutomatic RestartApprovalMode = "Automatic"
)

// RestartApproval returns who restarts the VM when changes await that.
func (s *VirtualMachineSpec) RestartApproval() RestartApprovalMode {
	if s.Disruptions == nil {
		return RestartManual
	}
	return cmp.Or(s.Disruptions.RestartApprovalMode, RestartManual)
}

// AutomaticRestart is the latest restart by the manager.
type AutomaticRestart struct {
	// PodUID is the uid of the pod that it has deleted, or is about to delete.
	PodUID types.UID `json:"podUID"`
	// Time when that was decided.
	Time metav1.Time `json:"time"`
	// Changes are hashes of the changes that it was for. They are not restarted for again.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Changes []string `json:"changes,omitempty"`
}
