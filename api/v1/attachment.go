package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A VirtualMachineBlockDeviceAttachment attaches a disk or an image to a VM while its guest runs:
// it is created, and the disk is attached; it is deleted, and the disk is detached. It outlives
// restarts of the VM.
//
// See docs/decisions/0122-attachments.md and docs/decisions/0159-images-attached-and-servers-awaited.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachineblockdeviceattachments,singular=virtualmachineblockdeviceattachment,shortName=vmbda
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Virtual machine name",type=string,JSONPath=`.spec.virtualMachineName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Block device",type=string,JSONPath=`.spec.blockDeviceRef.name`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type VirtualMachineBlockDeviceAttachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is to be attached.
	//
	// +required
	Spec VirtualMachineBlockDeviceAttachmentSpec `json:"spec,omitzero"`
	// Status is how far it is. The manager writes it.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the attachment yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualMachineBlockDeviceAttachmentStatus `json:"status,omitzero"`
}

// VirtualMachineBlockDeviceAttachmentList is a list of attachments.
//
// +kubebuilder:object:root=true
type VirtualMachineBlockDeviceAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineBlockDeviceAttachment `json:"items"`
}

// VirtualMachineBlockDeviceAttachmentSpec is what is to be attached. It can't be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an attachment can't be changed: delete it, which detaches the disk, and create another one"
type VirtualMachineBlockDeviceAttachmentSpec struct {
	// VirtualMachineName is the name of the VM, in the namespace of the attachment.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VM in this namespace: a-z, 0-9 and -"
	VirtualMachineName string `json:"virtualMachineName"`
	// BlockDeviceRef is the disk or image.
	//
	// +required
	BlockDeviceRef AttachedDeviceRef `json:"blockDeviceRef,omitzero"`
}

// AttachedDeviceRef names a disk or an image.
type AttachedDeviceRef struct {
	// Kind is VirtualDisk, or VirtualImage or ClusterVirtualImage: these are read only, and in a CD drive if they are
	// those of a CD.
	Kind AttachedDeviceKind `json:"kind"`
	// Name of the disk or image.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualDisk or VirtualImage in this namespace, or of a ClusterVirtualImage (kubectl get vd,vi,cvi)"
	Name string `json:"name"`
}

// AttachedDeviceKind is the kind of what can be attached while a guest runs.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self in ['VirtualDisk', 'VirtualImage', 'ClusterVirtualImage']",message="want VirtualDisk, VirtualImage or ClusterVirtualImage"
type AttachedDeviceKind string

// The kinds of what can be attached.
const (
	AttachedDisk         = AttachedDeviceKind(KindVirtualDisk)
	AttachedImage        = AttachedDeviceKind(KindVirtualImage)
	AttachedClusterImage = AttachedDeviceKind(KindClusterVirtualImage)
)

// IsImage reports whether it is an image, of the namespace or the cluster.
func (k AttachedDeviceKind) IsImage() bool { return BlockDeviceKind(k).IsImage() }

// AttachmentPhase is the state of an attachment in one word.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Attached;Failed;Terminating
type AttachmentPhase string

// The phases of an attachment.
const (
	AttachmentPending     AttachmentPhase = "Pending"     // Reason says what it waits for
	AttachmentInProgress  AttachmentPhase = "InProgress"  // the disk's export is started, or the runner attaches it
	AttachmentAttached    AttachmentPhase = "Attached"    // the guest has the disk
	AttachmentFailed      AttachmentPhase = "Failed"      // Message says what someone has to do
	AttachmentTerminating AttachmentPhase = "Terminating" // the guest lets go of the disk
)

// VirtualMachineBlockDeviceAttachmentStatus is how far it is to attach a disk.
type VirtualMachineBlockDeviceAttachmentStatus struct {
	// Phase is the state in one word; Reason and Message say more.
	//
	// +optional
	Phase AttachmentPhase `json:"phase,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// VirtualMachineName is the VM.
	//
	// +optional
	VirtualMachineName string `json:"virtualMachineName,omitempty"`
	// Conditions are BlockDeviceReady, VirtualMachineReady and Attached.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// The conditions of an attachment.
const (
	AttachmentConditionDevice   = "BlockDeviceReady"    // the VM has, or can have, the disk
	AttachmentConditionVM       = "VirtualMachineReady" // the VM runs
	AttachmentConditionAttached = "Attached"            // the guest has the disk
)

// AttachmentFinalizer keeps a deleted attachment until the guest has let go of the disk.
const AttachmentFinalizer = GroupName + "/attachment"
