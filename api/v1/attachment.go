package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualMachineBlockDeviceAttachment attaches a disk or an image to a running VM. Creating it
// attaches the disk, deleting it detaches the disk. It persists across restarts of the VM.
//
// ---
// See docs/decisions/0122-attachments.md and
// docs/decisions/0159-images-attached-and-servers-awaited.md.
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

	// Disk or image to attach, and the VM to attach it to.
	//
	// +required
	Spec VirtualMachineBlockDeviceAttachmentSpec `json:"spec,omitzero"`
	// Progress of the attachment. Written by the manager.
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

// VirtualMachineBlockDeviceAttachmentSpec names the disk or image to attach and the VM. It is
// immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an attachment can't be changed: delete it, which detaches the disk, and create another one"
type VirtualMachineBlockDeviceAttachmentSpec struct {
	// Name of the VM, in the namespace of the attachment.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VM in this namespace: a-z, 0-9 and -"
	VirtualMachineName string `json:"virtualMachineName"`
	// Disk or image to attach.
	//
	// +required
	BlockDeviceRef AttachedDeviceRef `json:"blockDeviceRef,omitzero"`
}

// AttachedDeviceRef names a disk or an image.
type AttachedDeviceRef struct {
	// Kind of the block device: VirtualDisk, VirtualImage or ClusterVirtualImage. Images are
	// read-only; images of a CD or DVD appear in a CD drive.
	Kind AttachedDeviceKind `json:"kind"`
	// Name of the disk or image.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualDisk or VirtualImage in this namespace, or of a ClusterVirtualImage (kubectl get vd,vi,cvi)"
	Name string `json:"name"`
}

// AttachedDeviceKind is the kind of a block device that can be attached to a running VM.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self in ['VirtualDisk', 'VirtualImage', 'ClusterVirtualImage']",message="must be VirtualDisk, VirtualImage or ClusterVirtualImage"
type AttachedDeviceKind string

// The kinds of block devices that can be attached.
const (
	AttachedDisk         = AttachedDeviceKind(KindVirtualDisk)
	AttachedImage        = AttachedDeviceKind(KindVirtualImage)
	AttachedClusterImage = AttachedDeviceKind(KindClusterVirtualImage)
)

// IsImage reports whether the kind is an image, of the namespace or the cluster.
func (k AttachedDeviceKind) IsImage() bool { return BlockDeviceKind(k).IsImage() }

// AttachmentPhase is the phase of an attachment.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Attached;Failed;Terminating
type AttachmentPhase string

// The phases of an attachment.
const (
	AttachmentPending     AttachmentPhase = "Pending"     // see Reason
	AttachmentInProgress  AttachmentPhase = "InProgress"  // its export is starting, or the runner is attaching it
	AttachmentAttached    AttachmentPhase = "Attached"    // the guest has the disk
	AttachmentFailed      AttachmentPhase = "Failed"      // needs a user's action, see Message
	AttachmentTerminating AttachmentPhase = "Terminating" // the guest is releasing the disk
)

// VirtualMachineBlockDeviceAttachmentStatus is the progress of an attachment.
type VirtualMachineBlockDeviceAttachmentStatus struct {
	// Current phase: Pending, InProgress, Attached, Failed or Terminating. See reason and message
	// for details.
	//
	// +optional
	Phase AttachmentPhase `json:"phase,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Name of the VM.
	//
	// +optional
	VirtualMachineName string `json:"virtualMachineName,omitempty"`
	// Conditions of the attachment: BlockDeviceReady, VirtualMachineReady and Attached.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Generation of the resource that this status reflects.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// The conditions of an attachment.
const (
	AttachmentConditionDevice   = "BlockDeviceReady"    // the disk is available to the VM
	AttachmentConditionVM       = "VirtualMachineReady" // the VM is running
	AttachmentConditionAttached = "Attached"            // the guest has the disk
)

// AttachmentFinalizer keeps a deleted attachment until the guest has released the disk.
const AttachmentFinalizer = GroupName + "/attachment"
