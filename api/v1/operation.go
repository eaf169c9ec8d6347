package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A VirtualMachineOperation is something that is to be done with a VM once, and the record
// of who has asked for it and how it ended.
//
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

	// Spec is what is to be done.
	//
	// +required
	Spec VirtualMachineOperationSpec `json:"spec,omitzero"`
	// Status is how far it is, and how it ended.
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

// AnnotationRequestedBy of an operation is the name of the user who has asked for it. An
// admission policy lets users write their own name only; the manager writes those of the
// users of its pages.
//
// See docs/decisions/0085-requested-by.md.
const AnnotationRequestedBy = GroupName + "/requested-by"

// VirtualMachineOperationSpec is what is to be done. It can't be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an operation can't be changed: delete it, which cancels it as far as possible, and create another one"
// +kubebuilder:validation:XValidation:rule="!has(self.migrate) || self.type == 'Migrate'",fieldPath=".migrate",message="only Migrate has it: leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.force) || !self.force || self.type in ['Stop', 'Restart', 'Evict', 'Migrate']",fieldPath=".force",message="only Stop, Restart, Evict and Migrate can be forced: leave it out"
type VirtualMachineOperationSpec struct {
	// Type is what is done. Start: the VM is set to Running. Stop: it is set to Stopped, the
	// guest is asked to shut down. Restart: the guest is asked to shut down, and starts in a
	// new pod with all pending changes. Reset: the reset button. Migrate: the guest moves to
	// another pod while it is running. Evict: it moves away from its node.
	Type OperationType `json:"type"`
	// VirtualMachineName is the name of the VM, in the namespace of the operation.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VM in this namespace: a-z, 0-9 and -"
	VirtualMachineName string `json:"virtualMachineName"`
	// Force of Stop and Restart ends the guest without asking it. For Evict and Migrate it makes no
	// difference: a guest that can't be moved otherwise is always slowed down. Default: false.
	//
	// +optional
	Force bool `json:"force,omitempty"`
	// Migrate says to where a guest moves.
	//
	// +optional
	Migrate *MigrateOptions `json:"migrate,omitempty"`
}

// OperationType is what an operation does.
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

// OperationPhase is how far an operation is.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Completed;Failed;Superseded
type OperationPhase string

// The phases of an operation.
const (
	OperationPending    OperationPhase = "Pending"    // no manager has taken it up
	OperationInProgress OperationPhase = "InProgress" // its effect is awaited
	OperationCompleted  OperationPhase = "Completed"  // the VM is as it was asked for
	OperationFailed     OperationPhase = "Failed"     // it had no effect, or not that: Reason says why
	OperationSuperseded OperationPhase = "Superseded" // another one has taken its place
)

// Finished reports whether an operation in this phase stays as it is.
func (p OperationPhase) Finished() bool {
	return p == OperationCompleted || p == OperationFailed || p == OperationSuperseded
}

// Types of the conditions of an operation.
const (
	// OperationConditionCompleted is True when the operation has had its effect.
	OperationConditionCompleted = "Completed"
	// OperationConditionSignalSent is True when the VM was changed, which is done once.
	OperationConditionSignalSent = "SignalSent"
)

// VirtualMachineOperationStatus is how far an operation is. Only the manager writes it.
type VirtualMachineOperationStatus struct {
	// Phase is the state in one word. Reason and Message say why.
	//
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message about the phase, for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// StartTime is when the manager took the operation up, by its own clock.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the operation finished, however it ended.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Target is what the operation changes. It is recorded before the change is made, so
	// that a manager that takes over makes the same change or none.
	//
	// +optional
	Target *OperationTarget `json:"target,omitempty"`
	// Conditions are Completed and SignalSent.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OperationTarget is what an operation changes.
type OperationTarget struct {
	// VirtualMachineUID is the uid of the VM: another one of the same name is not touched.
	VirtualMachineUID types.UID `json:"virtualMachineUID"`
	// PodUID is the uid of the pod whose guest is to end or to be reset. Absent: there was none.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// ResetCounter is the value that spec.resetCounter is set to.
	//
	// +optional
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// Generation of the VM after the change: what is known of an older one doesn't count.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
}
