package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VirtualMachineOperation is a one-time operation on a VM, and the record of who requested it and
// how it ended.
//
// ---
// See docs/decisions/0084-operations.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachineoperations,singular=virtualmachineoperation,shortName=vmop
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="VirtualMachine",type=string,JSONPath=`.spec.virtualMachineName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Requested-by",type=string,JSONPath=`.metadata.annotations.vmoperator\.jdrupes\.org/requested-by`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type VirtualMachineOperation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Operation to perform.
	//
	// +required
	Spec VirtualMachineOperationSpec `json:"spec,omitzero"`
	// Progress and result of the operation. Written by the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the operation yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualMachineOperationStatus `json:"status,omitzero"`
}

// VirtualMachineOperationList is a list of operations.
//
// +kubebuilder:object:root=true
type VirtualMachineOperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineOperation `json:"items"`
}

// AnnotationRequestedBy of an operation is the name of the user who requested it. An admission
// policy allows users to write only their own name; the manager writes the names of users of its
// pages.
//
// See docs/decisions/0085-requested-by.md.
const AnnotationRequestedBy = GroupName + "/requested-by"

// VirtualMachineOperationSpec defines the operation to perform. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an operation can't be changed: delete it, which cancels it as far as possible, and create another one"
// +kubebuilder:validation:XValidation:rule="!has(self.migrate) || self.type == 'Migrate'",fieldPath=".migrate",message="only Migrate has it: leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.force) || !self.force || self.type in ['Stop', 'Restart', 'Evict', 'Migrate']",fieldPath=".force",message="only Stop, Restart, Evict and Migrate can be forced: leave it out"
type VirtualMachineOperationSpec struct {
	// Operation to perform. Start: set the VM to Running. Stop: set it to Stopped and ask the guest
	// to shut down. Restart: ask the guest to shut down, then start it in a new pod with all
	// pending changes. Reset: press the reset button. Migrate: move the running guest to another
	// pod. Evict: move the running guest to another node.
	Type OperationType `json:"type"`
	// Name of the VM, in the namespace of the operation.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VM in this namespace: a-z, 0-9 and -"
	VirtualMachineName string `json:"virtualMachineName"`
	// Whether Stop and Restart end the guest without asking it to shut down. Evict and Migrate
	// ignore it: they always slow down a guest that can't migrate otherwise. Defaults to false.
	//
	// +optional
	Force bool `json:"force,omitempty"`
	// Target of a migration, for the type Migrate.
	//
	// +optional
	Migrate *MigrateOptions `json:"migrate,omitempty"`
}

// OperationType is the kind of an operation.
//
// +kubebuilder:validation:Enum=Start;Stop;Restart;Reset;Evict;Migrate
type OperationType string

// The types of operations.
const (
	OperationStart   OperationType = "Start"
	OperationStop    OperationType = "Stop"
	OperationRestart OperationType = "Restart"
	OperationReset   OperationType = "Reset"
	OperationEvict   OperationType = "Evict"
	OperationMigrate OperationType = "Migrate"
)

// OperationPhase is the phase of an operation.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Completed;Failed;Superseded
type OperationPhase string

// The phases of an operation.
const (
	OperationPending    OperationPhase = "Pending"    // no manager has started it
	OperationInProgress OperationPhase = "InProgress" // it has not yet taken effect
	OperationCompleted  OperationPhase = "Completed"  // it has taken effect
	OperationFailed     OperationPhase = "Failed"     // it had no or another effect, see Reason
	OperationSuperseded OperationPhase = "Superseded" // another operation has replaced it
)

// Finished reports whether the phase is final.
func (p OperationPhase) Finished() bool {
	return p == OperationCompleted || p == OperationFailed || p == OperationSuperseded
}

// Types of the conditions of an operation.
const (
	// OperationConditionCompleted is True when the operation has taken effect.
	OperationConditionCompleted = "Completed"
	// OperationConditionSignalSent is True when the VM has been changed, which happens once.
	OperationConditionSignalSent = "SignalSent"
)

// VirtualMachineOperationStatus is the progress of an operation. Written only by the manager.
type VirtualMachineOperationStatus struct {
	// Current phase: Pending, InProgress, Completed, Failed or Superseded. See reason and message
	// for details.
	//
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Time when the manager started the operation, by its own clock.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// Time when the operation finished, successfully or not.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Values that the operation sets. They are recorded before the change, so that another manager
	// that takes over doesn't repeat the operation.
	//
	// +optional
	Target *OperationTarget `json:"target,omitempty"`
	// Conditions of the operation: Completed and SignalSent.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OperationTarget records what an operation changes.
type OperationTarget struct {
	// UID of the VM. A VM created later with the same name is not changed.
	VirtualMachineUID types.UID `json:"virtualMachineUID"`
	// UID of the pod whose guest is stopped or reset. Unset if there was no pod.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Value that spec.resetCounter is set to.
	//
	// +optional
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// Generation of the VM after the change. Status of an older generation is ignored.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
}
