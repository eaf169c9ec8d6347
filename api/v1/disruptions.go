package v1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Disruptions define how the VM may be interrupted.
type Disruptions struct {
	// Whether a user or the manager restarts the VM when changes need a restart. Manual: a user
	// restarts it. Automatic: the manager asks the guest to shut down and restarts the VM. Defaults
	// to Manual.
	//
	// +optional
	// +kubebuilder:validation:Enum=Manual;Automatic
	RestartApprovalMode RestartApprovalMode `json:"restartApprovalMode,omitempty"`
}

// RestartApprovalMode defines whether a user or the manager restarts a VM when changes need a
// restart.
type RestartApprovalMode string

// The modes of restarts.
const (
	RestartManual    RestartApprovalMode = "Manual"
	RestartAutomatic RestartApprovalMode = "Automatic"
)

// RestartApproval returns whether a user or the manager restarts the VM when changes need a
// restart.
func (s *VirtualMachineSpec) RestartApproval() RestartApprovalMode {
	if s.Disruptions == nil {
		return RestartManual
	}
	return cmp.Or(s.Disruptions.RestartApprovalMode, RestartManual)
}

// AutomaticRestart is the manager's latest restart of a VM.
type AutomaticRestart struct {
	// UID of the pod that was deleted, or is about to be deleted.
	PodUID types.UID `json:"podUID"`
	// Time of the decision to restart.
	Time metav1.Time `json:"time"`
	// Hashes of the changes that the restart was for. The manager doesn't restart the VM again for
	// the same changes.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Changes []string `json:"changes,omitempty"`
}
