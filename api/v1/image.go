package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// VirtualImage is an image that is stored once and never changes. Any number of VMs of its
// namespace can read it at the same time, and disks can be created from it. Its data is stored in
// the PersistentVolumeClaim vi-<name>, which is deleted with the image.
//
// ---
// See docs/decisions/0124-virtual-images.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualimages,singular=virtualimage,shortName=vi
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="CDROM",type=boolean,JSONPath=`.status.cdrom`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Stored",type=string,JSONPath=`.status.size.stored`,priority=1
// +kubebuilder:printcolumn:name="Unpacked",type=string,JSONPath=`.status.size.unpacked`,priority=1
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.status.format`,priority=1
// +kubebuilder:printcolumn:name="TargetPVC",type=string,JSONPath=`.status.target.persistentVolumeClaimName`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 60",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 60 characters: the names of claims and volumes are made of it"
type VirtualImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Source and volume of the image.
	//
	// +required
	Spec VirtualImageSpec `json:"spec,omitzero"`
	// Current state of the image. Written by the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the image yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualImageStatus `json:"status,omitzero"`
}

// VirtualImageList is a list of images.
//
// +kubebuilder:object:root=true
type VirtualImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualImage `json:"items"`
}

// ImageStorage is the kind of storage of an image.
type ImageStorage string

// The kinds of storage of images.
const (
	ImageInClaim ImageStorage = "PersistentVolumeClaim"
)

// VirtualImageSpec defines the source and the volume of an image.
//
// +kubebuilder:validation:XValidation:rule="self.dataSource == oldSelf.dataSource",fieldPath=".dataSource",message="where the data of an image comes from can't be changed: make another image"
type VirtualImageSpec struct {
	// Storage of the image: PersistentVolumeClaim. Defaults to PersistentVolumeClaim.
	//
	// +kubebuilder:default=PersistentVolumeClaim
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == 'PersistentVolumeClaim'",message="must be PersistentVolumeClaim: images are stored in volumes; there is no registry for them"
	Storage ImageStorage `json:"storage,omitempty"`
	// Source of the data.
	//
	// +required
	DataSource VirtualDiskSource `json:"dataSource,omitzero"`
	// PersistentVolumeClaim that stores the image.
	//
	// +required
	PersistentVolumeClaim VirtualImageClaim `json:"persistentVolumeClaim,omitzero"`
}

// VirtualImageClaim describes the PersistentVolumeClaim of an image.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the storage class of an image can't be changed: make another image"
// +kubebuilder:validation:XValidation:rule="self.volumeMode == oldSelf.volumeMode",fieldPath=".volumeMode",message="the volume mode of an image can't be changed: make another image"
// +kubebuilder:validation:XValidation:rule="self.accessMode == oldSelf.accessMode",fieldPath=".accessMode",message="the access mode of an image can't be changed: make another image"
type VirtualImageClaim struct {
	// Name of the storage class. Defaults to the cluster's default storage class.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size of the volume, such as 10Gi; at least 1Mi and the size of the disk in the image. It can
	// be increased.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be a size such as 10Gi or 512Mi, at least 1Mi; a number without a unit counts bytes"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="an image can grow, but not shrink"
	Size resource.Quantity `json:"size"`
	// Mode of the volume. Block: the image is the volume itself. Filesystem: the image is a file in
	// the volume. Defaults to Block.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// Access mode of the volume. ReadWriteOnce: VMs on one node at a time can use the image.
	// ReadWriteMany: VMs on several nodes can use it, if the storage supports this mode. Defaults
	// to ReadWriteOnce.
	//
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
}

// VirtualImageStatus is the current state of an image.
type VirtualImageStatus struct {
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
	// Whether the image is a CD or DVD (ISO 9660), which VMs use in a CD drive.
	//
	// +optional
	CDROM *bool `json:"cdrom,omitempty"`
	// Format of the imported file, such as qcow2.
	//
	// +optional
	Format string `json:"format,omitempty"`
	// Size of the image.
	//
	// +optional
	Size ImageSize `json:"size,omitzero"`
	// Capacity of the volume.
	//
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Progress of the import, such as 45%.
	//
	// +optional
	Progress string `json:"progress,omitempty"`
	// Import of the data.
	//
	// +optional
	Import *DiskImport `json:"import,omitempty"`
	// Location of the data.
	//
	// +optional
	Target DiskTarget `json:"target,omitzero"`
	// Export of the data to a user's computer, requested with the annotation
	// vmoperator.jdrupes.org/export.
	//
	// +optional
	Export *DiskExport `json:"export,omitempty"`
	// Reason why the file in a volume of the mode Filesystem is not trusted: the source of the
	// image. Empty if it is trusted.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions of the image: Ready.
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

// ImageSize is the size of an image.
type ImageSize struct {
	// Size of the transferred file, such as 340Mi.
	//
	// +optional
	Stored string `json:"stored,omitempty"`
	// Size of the transferred file in bytes.
	//
	// +optional
	StoredBytes string `json:"storedBytes,omitempty"`
	// Size of the disk in the image, such as 3Gi. A disk created from the image must be at least
	// this large.
	//
	// +optional
	Unpacked string `json:"unpacked,omitempty"`
	// Size of the disk in the image in bytes.
	//
	// +optional
	UnpackedBytes string `json:"unpackedBytes,omitempty"`
}
