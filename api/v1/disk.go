package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// VirtualDisk is a disk with its own lifecycle. VMs of its namespace can use it one at a time. Its
// data is stored in the PersistentVolumeClaim named in status.target, initially vd-<name>, which is
// deleted with the disk.
//
// ---
// See docs/decisions/0109-disk-lock.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualdisks,singular=virtualdisk,shortName=vd
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.capacity`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.status.attachedToVirtualMachines[0].name`,priority=1
// +kubebuilder:printcolumn:name="StorageClass",type=string,JSONPath=`.spec.persistentVolumeClaim.storageClassName`,priority=1
// +kubebuilder:printcolumn:name="TargetPVC",type=string,JSONPath=`.status.target.persistentVolumeClaimName`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 60",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 60 characters: the names of claims and volumes are made of it"
type VirtualDisk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Source and volume of the disk.
	//
	// +required
	Spec VirtualDiskSpec `json:"spec,omitzero"`
	// Current state of the disk. Written by the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the disk yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualDiskStatus `json:"status,omitzero"`
}

// VirtualDiskList is a list of disks.
//
// +kubebuilder:object:root=true
type VirtualDiskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualDisk `json:"items"`
}

// VirtualDiskSpec defines the source and the volume of a disk.
//
// +kubebuilder:validation:XValidation:rule="has(self.dataSource) == has(oldSelf.dataSource) && (!has(self.dataSource) || self.dataSource == oldSelf.dataSource)",fieldPath=".dataSource",message="where the data of a disk comes from can't be changed: make another disk"
type VirtualDiskSpec struct {
	// Source of the data. Defaults to a blank disk.
	//
	// +optional
	DataSource *VirtualDiskSource `json:"dataSource,omitempty"`
	// PersistentVolumeClaim that stores the disk.
	//
	// +required
	PersistentVolumeClaim VirtualDiskClaim `json:"persistentVolumeClaim,omitzero"`
}

// VirtualDiskClaim describes the PersistentVolumeClaim of a disk.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the storage class of a disk can't be changed: make another disk"
// +kubebuilder:validation:XValidation:rule="self.volumeMode == oldSelf.volumeMode",fieldPath=".volumeMode",message="the volume mode of a disk can't be changed: make another disk"
// +kubebuilder:validation:XValidation:rule="self.accessMode == oldSelf.accessMode",fieldPath=".accessMode",message="the access mode of a disk can't be changed: make another disk"
type VirtualDiskClaim struct {
	// Name of the storage class. Defaults to the cluster's default storage class.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size of the disk, such as 10Gi; at least 1Mi. It can be increased, even while a VM is using
	// the disk, if the storage class allows volume expansion.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be a size such as 10Gi or 512Mi, at least 1Mi; a number without a unit counts bytes"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="a disk can grow, but not shrink"
	Size resource.Quantity `json:"size"`
	// Mode of the volume. Block: the disk is the volume itself. Filesystem: the disk is a file in
	// the volume. Defaults to Block.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// Access mode of the volume. ReadWriteOnce: one node at a time can use the disk. ReadWriteMany:
	// a running VM with the disk can migrate to another node, if the storage supports this mode.
	// Only one VM at a time can use the disk in both modes. Defaults to ReadWriteOnce.
	//
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
}

// DiskPhase is the phase of a disk or an image.
//
// +kubebuilder:validation:Enum=Pending;WaitForFirstConsumer;WaitForUserUpload;Provisioning;Ready;Resizing;Failed;Terminating
type DiskPhase string

// The phases of a disk.
const (
	DiskPending      DiskPhase = "Pending"              // see Reason
	DiskWaiting      DiskPhase = "WaitForFirstConsumer" // its volume is created when a VM that uses it starts
	DiskUpload       DiskPhase = "WaitForUserUpload"    // a user must send the data
	DiskProvisioning DiskPhase = "Provisioning"         // its data is being imported
	DiskReady        DiskPhase = "Ready"
	DiskResizing     DiskPhase = "Resizing" // ready, and its volume is growing
	DiskFailed       DiskPhase = "Failed"   // needs a user's action, see Message
	DiskTerminating  DiskPhase = "Terminating"
)

// VirtualDiskStatus is the current state of a disk.
type VirtualDiskStatus struct {
	// Current phase: Pending, WaitForFirstConsumer, WaitForUserUpload, Provisioning, Ready,
	// Resizing, Failed or Terminating. See reason and message for details.
	//
	// +optional
	Phase DiskPhase `json:"phase,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Capacity of the volume.
	//
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Progress of the import, such as 45%.
	//
	// +optional
	Progress string `json:"progress,omitempty"`
	// Import of the data, for a disk with a source.
	//
	// +optional
	Import *DiskImport `json:"import,omitempty"`
	// Location of the data.
	//
	// +optional
	Target DiskTarget `json:"target,omitzero"`
	// VM that uses the disk; at most one. This is the lock: the entry is written before the VM's
	// pod is created, and removed after the pod is gone.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1
	AttachedToVirtualMachines []AttachedVirtualMachine `json:"attachedToVirtualMachines,omitempty"`
	// Pods that are copying the disk's data to another disk or an image. No VM can use the disk
	// during the copy.
	//
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	CopiedBy []DiskCopy `json:"copiedBy,omitempty"`
	// Export of the data to a user's computer, requested with the annotation
	// vmoperator.jdrupes.org/export.
	//
	// +optional
	Export *DiskExport `json:"export,omitempty"`
	// Reason why the files in a volume of the mode Filesystem are not trusted: an earlier user of
	// the volume. Empty if they are trusted.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions of the disk: Ready, Resized and InUse.
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

// DiskTarget is the location of a disk's data.
type DiskTarget struct {
	// Name of the PersistentVolumeClaim.
	//
	// +optional
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName,omitempty"`
	// UID of the PersistentVolumeClaim. A claim created later with the same name has another UID
	// and is not used.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// AttachedVirtualMachine is a VM that uses a disk.
type AttachedVirtualMachine struct {
	// Name of the VM.
	Name string `json:"name"`
}

// DiskCopy is a pod that reads a disk.
type DiskCopy struct {
	// Kind of the resource that receives the copy: VirtualDisk or VirtualImage. The name is in the
	// field name.
	Kind BlockDeviceKind `json:"kind"`
	Name string          `json:"name"`
	// UID of the pod.
	Pod types.UID `json:"pod"`
}

// The conditions of a disk.
const (
	DiskConditionReady   = "Ready"   // VMs can use it
	DiskConditionResized = "Resized" // it has the requested size
	DiskConditionInUse   = "InUse"   // a VM uses it
)

// BlockDeviceKind is the kind of a VM's disk or CD.
//
// +kubebuilder:validation:Enum=VirtualDisk;VirtualImage;ClusterVirtualImage
type BlockDeviceKind string

// The kinds of block devices.
const (
	KindVirtualDisk         BlockDeviceKind = "VirtualDisk"
	KindVirtualImage        BlockDeviceKind = "VirtualImage"
	KindClusterVirtualImage BlockDeviceKind = "ClusterVirtualImage"
)

// IsImage reports whether the kind is an image, of the namespace or the cluster, which any number
// of VMs can read.
func (k BlockDeviceKind) IsImage() bool { return k == KindVirtualImage || k == KindClusterVirtualImage }

// BlockDeviceRef names a disk of a VM.
type BlockDeviceRef struct {
	// Kind of the block device: VirtualDisk, VirtualImage or ClusterVirtualImage. Images are
	// read-only; images of a CD or DVD appear in a CD drive.
	Kind BlockDeviceKind `json:"kind"`
	// Name of the disk or image.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualDisk or VirtualImage in the VM's namespace, or of a ClusterVirtualImage (kubectl get vd,vi,cvi)"
	Name string `json:"name"`
	// Position in the boot order, from 1. If any device sets it, the VM boots only from devices
	// that set it. Defaults to the position in the list.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	BootOrder *int32 `json:"bootOrder,omitempty"`
}

// VirtualDiskRef names a VirtualDisk.
type VirtualDiskRef struct {
	// Name of the VirtualDisk, in the VM's namespace.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualDisk in the VM's namespace (kubectl get vd)"
	Name string `json:"name"`
}
