package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// DiskSourceType says where the data of a disk comes from.
//
// +kubebuilder:validation:Enum=HTTP;ContainerImage;ObjectRef;Upload
type DiskSourceType string

// The types of sources.
const (
	DiskSourceHTTP           DiskSourceType = "HTTP"
	DiskSourceContainerImage DiskSourceType = "ContainerImage"
	DiskSourceObjectRef      DiskSourceType = "ObjectRef"
	DiskSourceUpload         DiskSourceType = "Upload"
)

// SecretTypeHTTP is the type of Secrets with the keys username and password for a web server. Others are not
// given to an import: who may make a disk chooses the server, and need not be allowed to read Secrets.
const SecretTypeHTTP corev1.SecretType = GroupName + "/http-credentials"

// AnnotationHosts of a Secret of the type SecretTypeHTTP has the servers to which an import may send it, separated by
// commas: host for https at its usual port, host:port for any other.
const AnnotationHosts = GroupName + "/hosts"

// VirtualDiskSource is where the data of a disk comes from.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'HTTP' || has(self.http) && !has(self.containerImage) && !has(self.objectRef)",message="the type HTTP wants http, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'ContainerImage' || has(self.containerImage) && !has(self.http) && !has(self.objectRef)",message="the type ContainerImage wants containerImage, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'ObjectRef' || has(self.objectRef) && !has(self.http) && !has(self.containerImage)",message="the type ObjectRef wants objectRef, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'Upload' || !has(self.objectRef) && !has(self.http) && !has(self.containerImage)",message="the type Upload wants nothing else: kubectl vmop sends the image"
type VirtualDiskSource struct {
	// Type: HTTP is an image on a web server, ContainerImage one in a container image, ObjectRef
	// something in the disk's namespace, Upload an image that a user sends (kubectl vmop image
	// upload, kubectl vmop disk upload).
	Type DiskSourceType `json:"type"`
	// HTTP is an image on a web server.
	//
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`
	// ContainerImage is an image in a container image.
	//
	// +optional
	ContainerImage *ContainerImageSource `json:"containerImage,omitempty"`
	// ObjectRef is an image, another disk, a snapshot of one, or a claim.
	//
	// +optional
	ObjectRef *DiskSourceRef `json:"objectRef,omitempty"`
}

// DiskSourceRef is something in the disk's namespace.
//
// +kubebuilder:validation:XValidation:rule="has(self.virtualDiskName) == (self.kind == 'VirtualMachineSnapshot')",fieldPath=".virtualDiskName",message="says which disk of a VirtualMachineSnapshot is meant, and is left out otherwise"
type DiskSourceRef struct {
	// Kind is VirtualImage, VirtualDisk, VirtualDiskSnapshot or VirtualMachineSnapshot, ClusterVirtualImage, which
	// is in no namespace, or PersistentVolumeClaim. A disk is copied while no VM has it, a claim while no pod writes
	// to it, if it has the label vmoperator.jdrupes.org/data-source with the value "true".
	//
	// +kubebuilder:validation:Enum=VirtualImage;ClusterVirtualImage;VirtualDisk;VirtualDiskSnapshot;VirtualMachineSnapshot;PersistentVolumeClaim
	Kind string `json:"kind"`
	// Name of the image, the disk, the snapshot or the claim.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// VirtualDiskName is the disk that is meant of those in a VirtualMachineSnapshot.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=60
	VirtualDiskName string `json:"virtualDiskName,omitempty"`
}

// HTTPSource is an image on a web server.
type HTTPSource struct {
	// URL of the image, http or https. It is no secret: credentials are in the Secret of
	// secretRef.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="want a URL of http or https, such as https://example.org/debian.qcow2"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/]*@')",message="want a URL without user and password, which all could read: put them into a Secret (secretRef)"
	URL string `json:"url"`
	// Checksum of what is transferred, as publishers list it. Without one the image is what
	// the server says.
	//
	// +optional
	Checksum *Checksum `json:"checksum,omitempty"`
	// CABundle has authorities that are trusted beside the well-known ones, as PEM, encoded
	// by base64.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
	// SecretRef is a Secret of the type vmoperator.jdrupes.org/http-credentials with the keys
	// username and password.
	//
	// +optional
	SecretRef *LocalSecretRef `json:"secretRef,omitempty"`
}

// Checksum is that of a file, by one algorithm.
//
// +kubebuilder:validation:XValidation:rule="[has(self.md5), has(self.sha256), has(self.sha512)].exists_one(given, given)",message="want one of md5, sha256 and sha512"
type Checksum struct {
	// MD5 is 32 hexadecimal digits. It shows errors of the transfer, and no forgery.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{32}$')",message="want 32 hexadecimal digits"
	MD5 string `json:"md5,omitempty"`
	// SHA256 is 64 hexadecimal digits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{64}$')",message="want 64 hexadecimal digits"
	SHA256 string `json:"sha256,omitempty"`
	// SHA512 is 128 hexadecimal digits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{128}$')",message="want 128 hexadecimal digits"
	SHA512 string `json:"sha512,omitempty"`
}

// ContainerImageSource is an image of a disk in a container image: the only file of its folder
// /disk, or the only layer of an OCI artifact.
type ContainerImageSource struct {
	// Image is REGISTRY/NAME:TAG, or @sha256:… instead of the tag.
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][^ ]*$')",message="want the name of a container image, such as registry.example.org/images/debian:12"
	Image string `json:"image"`
	// ImagePullSecret is a Secret of the type kubernetes.io/dockerconfigjson.
	//
	// +optional
	ImagePullSecret *LocalSecretRef `json:"imagePullSecret,omitempty"`
	// CABundle has authorities that are trusted beside the well-known ones, as PEM, encoded
	// by base64.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
}

// KindVirtualDiskSnapshot is a kind of source in the namespace, besides those of block devices.
const KindVirtualDiskSnapshot = "VirtualDiskSnapshot"

// KindClaim is that of a source that is the claim of no VirtualDisk or VirtualImage. LabelDataSource with the value
// "true" says that the data in it may be copied by all who may create disks in its namespace.
const (
	KindClaim       = "PersistentVolumeClaim"
	LabelDataSource = GroupName + "/data-source"
)

// LocalSecretRef names a Secret in the same namespace.
type LocalSecretRef struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DiskImport is how far the import of a disk's data is.
type DiskImport struct {
	// Pod is the uid of the pod that may write to the disk. Another one is never started.
	//
	// +optional
	Pod types.UID `json:"pod,omitempty"`
	// Source is the uid of the claim that the pod copies.
	//
	// +optional
	Source types.UID `json:"source,omitempty"`
	// CompletionTime is when the data was whole. No VM has the disk before.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Bytes that have been transferred, of Total; 0 is not known.
	//
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Total number of bytes to be transferred; 0 if the server doesn't say it.
	//
	// +optional
	Total int64 `json:"total,omitempty"`
	// TimeLeft is an estimate, such as 2m30s.
	//
	// +optional
	TimeLeft string `json:"timeLeft,omitempty"`
	// Format of the image, once it is known.
	//
	// +optional
	Format string `json:"format,omitempty"`
	// VirtualSize is how many bytes the disk in the image has.
	//
	// +optional
	VirtualSize int64 `json:"virtualSize,omitempty"`
	// Checksum of what was transferred, or the digest of the container image.
	//
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// Warnings say what could not be made sure.
	//
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
	// Failures is how many attempts in a row have failed.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// Reason why the last of them has failed, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// RetryTime is when the next attempt begins. Without one, after a failure, it begins when the
	// disk's definition or its Secret changes.
	//
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// Inputs are the versions of the definition and the Secret that the failure is about.
	//
	// +optional
	Inputs string `json:"inputs,omitempty"`
}
