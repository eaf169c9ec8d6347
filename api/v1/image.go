package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

// A VirtualImage is an image that is stored once, and never changes. Any number of VMs of its
// namespace have it at the same time, to read, and disks are made of it. Its data is in the claim
// vi-<name>, which is deleted with it.
//
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

	// Spec is what is asked for.
	//
	// +required
	Spec VirtualImageSpec `json:"spec,omitzero"`
	// Status is what there is. The manager writes it.
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

// ImageStorage says where an image is stored.
type ImageStorage string

// The places of images.
const (
	ImageInClaim ImageStorage = "PersistentVolumeClaim"
)

// VirtualImageSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="self.dataSource == oldSelf.dataSource",fieldPath=".dataSource",message="where the data of an image comes from can't be changed: make another image"
type VirtualImageSpec struct {
	// Storage is PersistentVolumeClaim: the image is in a volume.
	//
	// +kubebuilder:default=PersistentVolumeClaim
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == 'PersistentVolumeClaim'",message="want PersistentVolumeClaim: images are stored in volumes; there is no registry for them"
	Storage ImageStorage `json:"storage,omitempty"`
	// DataSource is where the data comes from.
	//
	// +required
	DataSource VirtualDiskSource `json:"dataSource,omitzero"`
	// PersistentVolumeClaim is the claim of the image.
	//
	// +required
	PersistentVolumeClaim VirtualImageClaim `json:"persistentVolumeClaim,omitzero"`
}

// VirtualImageClaim is the claim of an image.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",fieldPath=".storageClassName",message="the storage class of an image can't be changed: make another image"
// +kubebuilder:validation:XValidation:rule="self.volumeMode == oldSelf.volumeMode",fieldPath=".volumeMode",message="the volume mode of an image can't be changed: make another image"
// +kubebuilder:validation:XValidation:rule="self.accessMode == oldSelf.accessMode",fieldPath=".accessMode",message="the access mode of an image can't be changed: make another image"
type VirtualImageClaim struct {
	// StorageClassName is the storage class. Default: the cluster's default one.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Size of the volume, such as 10Gi, at least 1Mi and what the disk in the image has. It can
	// grow.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="want a size such as 10Gi or 512Mi, at least 1Mi; a number without a unit counts bytes"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || !isQuantity(string(oldSelf)) || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="an image can grow, but not shrink"
	Size resource.Quantity `json:"size"`
	// VolumeMode is Block, the default, or Filesystem: then the image is a file in the volume.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// AccessMode is ReadWriteOnce, the default: VMs on one node at a time can have the image. With
	// ReadWriteMany, where the storage has it, they may be on different nodes.
	//
	// +kubebuilder:default=ReadWriteOnce
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
}

// VirtualImageStatus is what there is of an image.
type VirtualImageStatus struct {
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
	// CDROM: it is that of a CD or DVD (ISO 9660). VMs have it in a CD drive.
	//
	// +optional
	CDROM *bool `json:"cdrom,omitempty"`
	// Format is that in which the image came, such as qcow2.
	//
	// +optional
	Format string `json:"format,omitempty"`
	// Size of the image.
	//
	// +optional
	Size ImageSize `json:"size,omitzero"`
	// Capacity is how large the volume is.
	//
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Progress of the import of the data, such as 45%.
	//
	// +optional
	Progress string `json:"progress,omitempty"`
	// Import is how the data gets into the image.
	//
	// +optional
	Import *DiskImport `json:"import,omitempty"`
	// Target is where the data is.
	//
	// +optional
	Target DiskTarget `json:"target,omitzero"`
	// Export is that of the data to a user's computer, which the annotation
	// vmoperator.jdrupes.org/export asks for.
	//
	// +optional
	Export *DiskExport `json:"export,omitempty"`
	// Untrusted says why the file in a volume of the mode Filesystem is not trusted: what it was
	// made of. Empty: it is.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions has Ready.
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

// ImageSize is how large an image is.
type ImageSize struct {
	// Stored is how much was transferred, such as 340Mi.
	//
	// +optional
	Stored string `json:"stored,omitempty"`
	// StoredBytes is the same in bytes.
	//
	// +optional
	StoredBytes string `json:"storedBytes,omitempty"`
	// Unpacked is how large the disk in the image is, such as 3Gi. A disk that is made of it is at
	// least as large.
	//
	// +optional
	Unpacked string `json:"unpacked,omitempty"`
	// UnpackedBytes is the same in bytes.
	//
	// +optional
	UnpackedBytes string `json:"unpackedBytes,omitempty"`
}
