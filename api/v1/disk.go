package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// A VirtualDisk is a disk that VMs of its namespace have, one after another. It outlives them.
// Its data is in the claim that status.target names, vd-<name> at first, which is deleted with it.
//
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

	// Spec is what is asked for.
	//
	// +required
	Spec VirtualDiskSpec `json:"spec,omitzero"`
	// Status is what there is. The manager writes it.
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

// VirtualDiskSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="has(self.dataSource) == has(oldSelf.dataSource) && (!has(self.dataSource) || self.dataSource == oldSelf.dataSource)",fieldPath=".dataSource",message="where the data of a disk comes from can't be changed: make another disk"
type VirtualDiskSpec struct {
	// DataSource is where the data comes from. Default: the disk is blank.
	//
	// +optional
	DataSource *VirtualDiskSource `json:"dataSource,omitempty"`
	// PersistentVolumeClaim is the claim of the disk.
	//
	// +required
	PersistentVolumeClaim VirtualDiskClaim `json:"persistentVolumeClaim,omitzero"`
}

// VirtualDiskClaim is the claim of a disk.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the storage class of a disk can't be changed: make another disk"
// +kubebuilder:validation:XValidation:rule="self.volumeMode == oldSelf.volumeMode",fieldPath=".volumeMode",message="the volume mode of a disk can't be changed: make another disk"
// +kubebuilder:validation:XValidation:rule="self.accessMode == oldSelf.accessMode",fieldPath=".accessMode",message="the access mode of a disk can't be changed: make another disk"
type VirtualDiskClaim struct {
	// StorageClassName is the storage class. Default: the cluster's default one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size of the disk, such as 10Gi, at least 1Mi. It can grow, also while a VM has the disk,
	// if the storage class lets volumes grow.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="want a size such as 10Gi or 512Mi, at least 1Mi; a number without a unit counts bytes"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="a disk can grow, but not shrink"
	Size resource.Quantity `json:"size"`
	// VolumeMode is Block, the default, or Filesystem: then the disk is a file in the volume.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// AccessMode is ReadWriteOnce, the default: one node at a time can have the disk. With
	// ReadWriteMany, where the storage has it, a VM with the disk can move to another node while it
	// is running. Another VM can't have it in either case.
	//
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
}

// DiskPhase is the state of a disk in one word.
//
// +kubebuilder:validation:Enum=Pending;WaitForFirstConsumer;WaitForUserUpload;Provisioning;Ready;Resizing;Failed;Terminating
type DiskPhase string

// The phases of a disk.
const (
	DiskPending      DiskPhase = "Pending"              // Reason says what it waits for
	DiskWaiting      DiskPhase = "WaitForFirstConsumer" // its volume is made when a VM starts that has it
	DiskUpload       DiskPhase = "WaitForUserUpload"    // a user is to send the data
	DiskProvisioning DiskPhase = "Provisioning"         // its data is being imported
	DiskReady        DiskPhase = "Ready"
	DiskResizing     DiskPhase = "Resizing" // it is ready, and its volume grows
	DiskFailed       DiskPhase = "Failed"   // Message says what someone has to do
	DiskTerminating  DiskPhase = "Terminating"
)

// VirtualDiskStatus is what there is of a disk.
type VirtualDiskStatus struct {
	// Phase is the state in one word; Reason and Message say more.
	//
	// +optional
	Phase DiskPhase `json:"phase,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Capacity is how large the volume is.
	//
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Progress of the import of the data, such as 45%.
	//
	// +optional
	Progress string `json:"progress,omitempty"`
	// Import is how the data gets onto a disk that has a source.
	//
	// +optional
	Import *DiskImport `json:"import,omitempty"`
	// Target is where the data is.
	//
	// +optional
	Target DiskTarget `json:"target,omitzero"`
	// AttachedToVirtualMachines is the VM that has the disk, at most one. It is written
	// before a pod of the VM is made, and removed when there is none: this is the lock.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1
	AttachedToVirtualMachines []AttachedVirtualMachine `json:"attachedToVirtualMachines,omitempty"`
	// CopiedBy are the pods that copy the data into another disk or an image. While there are
	// any, no VM gets the disk.
	//
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	CopiedBy []DiskCopy `json:"copiedBy,omitempty"`
	// Export is that of the data to a user's computer, which the annotation
	// vmoperator.jdrupes.org/export asks for.
	//
	// +optional
	Export *DiskExport `json:"export,omitempty"`
	// Untrusted says why the files in a volume of the mode Filesystem are not trusted: who
	// has had it. Empty: they are.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions are Ready, Resized and InUse.
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

// DiskTarget is where the data of a disk is.
type DiskTarget struct {
	// PersistentVolumeClaimName is the claim.
	//
	// +optional
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName,omitempty"`
	// UID of the claim. One of the same name that is made later is another.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// AttachedVirtualMachine is a VM that has a disk.
type AttachedVirtualMachine struct {
	// Name of the VM.
	Name string `json:"name"`
}

// DiskCopy is a pod that reads a disk.
type DiskCopy struct {
	// Kind of what is made, VirtualDisk or VirtualImage, and its name.
	Kind BlockDeviceKind `json:"kind"`
	Name string          `json:"name"`
	// Pod is the uid of the pod.
	Pod types.UID `json:"pod"`
}

// The conditions of a disk.
const (
	DiskConditionReady   = "Ready"   // VMs can have it
	DiskConditionResized = "Resized" // it is as large as asked for
	DiskConditionInUse   = "InUse"   // a VM has it
)

// BlockDeviceKind is the kind of what a VM has as a disk or a CD.
//
// +kubebuilder:validation:Enum=VirtualDisk;VirtualImage;ClusterVirtualImage
type BlockDeviceKind string

// The kinds of block devices.
const (
	KindVirtualDisk         BlockDeviceKind = "VirtualDisk"
	KindVirtualImage        BlockDeviceKind = "VirtualImage"
	KindClusterVirtualImage BlockDeviceKind = "ClusterVirtualImage"
)

// IsImage reports whether it is an image, of the namespace or the cluster: any number of VMs have it, to read.
func (k BlockDeviceKind) IsImage() bool { return k == KindVirtualImage || k == KindClusterVirtualImage }

// BlockDeviceRef is a disk of a VM.
type BlockDeviceRef struct {
	// Kind is VirtualDisk, or VirtualImage or ClusterVirtualImage: these are read only, and in a CD drive if they are
	// those of a CD.
	Kind BlockDeviceKind `json:"kind"`
	// Name of the disk or image.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualDisk or VirtualImage in the VM's namespace, or of a ClusterVirtualImage (kubectl get vd,vi,cvi)"
	Name string `json:"name"`
	// BootOrder is the place in the order of booting, from 1. If one device has it, only those
	// that have it are booted from. Default: the place in the list.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	BootOrder *int32 `json:"bootOrder,omitempty"`
}

// VirtualDiskRef names a VirtualDisk.
type VirtualDiskRef struct {
	// Name of the VirtualDisk in the VM's namespace.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualDisk in the VM's namespace (kubectl get vd)"
	Name string `json:"name"`
}
