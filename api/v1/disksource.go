package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
)

// DiskSourceType is the type of a disk's data source.
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

// SecretTypeHTTP is the type of Secrets with the keys username and password for a web server. An
// import gets no other Secret, because users who create disks choose the server and need not have
// permission to read Secrets.
const SecretTypeHTTP corev1.SecretType = GroupName + "/http-credentials"

// AnnotationHosts of a Secret of the type SecretTypeHTTP lists the servers that an import may send
// it to, separated by commas: host for https at its usual port, host:port for any other.
const AnnotationHosts = GroupName + "/hosts"

// VirtualDiskSource is the source of a disk's data.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'HTTP' || has(self.http) && !has(self.containerImage) && !has(self.objectRef)",message="the type HTTP requires http, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'ContainerImage' || has(self.containerImage) && !has(self.http) && !has(self.objectRef)",message="the type ContainerImage requires containerImage, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'ObjectRef' || has(self.objectRef) && !has(self.http) && !has(self.containerImage)",message="the type ObjectRef requires objectRef, and nothing else"
// +kubebuilder:validation:XValidation:rule="self.type != 'Upload' || !has(self.objectRef) && !has(self.http) && !has(self.containerImage)",message="the type Upload allows nothing else: kubectl vmop sends the image"
type VirtualDiskSource struct {
	// Type of the source. HTTP: an image on a web server. ContainerImage: an image in a container
	// image. ObjectRef: a resource in the disk's namespace. Upload: an image that a user sends
	// (kubectl vmop image upload, kubectl vmop disk upload).
	Type DiskSourceType `json:"type"`
	// Image on a web server. Required for the type HTTP.
	//
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`
	// Image in a container image. Required for the type ContainerImage.
	//
	// +optional
	ContainerImage *ContainerImageSource `json:"containerImage,omitempty"`
	// Image, disk, snapshot or claim to copy. Required for the type ObjectRef.
	//
	// +optional
	ObjectRef *DiskSourceRef `json:"objectRef,omitempty"`
}

// DiskSourceRef names a resource to copy from.
//
// +kubebuilder:validation:XValidation:rule="has(self.virtualDiskName) == (self.kind == 'VirtualMachineSnapshot')",fieldPath=".virtualDiskName",message="says which disk of a VirtualMachineSnapshot is meant, and is left out otherwise"
type DiskSourceRef struct {
	// Kind of the resource: VirtualImage, VirtualDisk, VirtualDiskSnapshot, VirtualMachineSnapshot
	// or PersistentVolumeClaim in the same namespace, or ClusterVirtualImage. A disk is copied
	// while no VM uses it. A claim is copied while no pod writes to it, and requires the label
	// vmoperator.jdrupes.org/data-source with the value "true".
	//
	// +kubebuilder:validation:Enum=VirtualImage;ClusterVirtualImage;VirtualDisk;VirtualDiskSnapshot;VirtualMachineSnapshot;PersistentVolumeClaim
	Kind string `json:"kind"`
	// Name of the image, disk, snapshot or claim.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Name of the VirtualDisk to copy from a VirtualMachineSnapshot.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=60
	VirtualDiskName string `json:"virtualDiskName,omitempty"`
}

// HTTPSource is an image on a web server.
type HTTPSource struct {
	// URL of the image, http or https. All users who can read the resource can read it; put
	// credentials into the Secret of secretRef.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="must be a URL of http or https, such as https://example.org/debian.qcow2"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/]*@')",message="must be a URL without user and password, which everyone could read: put them into a Secret (secretRef)"
	URL string `json:"url"`
	// Checksum of the transferred file, as listed by its publisher. Without a checksum the content
	// is not verified.
	//
	// +optional
	Checksum *Checksum `json:"checksum,omitempty"`
	// PEM certificates of authorities to trust in addition to the well-known ones, base64-encoded.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
	// Secret of the type vmoperator.jdrupes.org/http-credentials with the keys username and
	// password.
	//
	// +optional
	SecretRef *LocalSecretRef `json:"secretRef,omitempty"`
}

// Checksum is the checksum of a file, by one algorithm.
//
// +kubebuilder:validation:XValidation:rule="[has(self.md5), has(self.sha256), has(self.sha512)].exists_one(given, given)",message="set exactly one of md5, sha256 and sha512"
type Checksum struct {
	// MD5 checksum, 32 hexadecimal digits. Detects transfer errors, but not forgery.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{32}$')",message="must be 32 hexadecimal digits"
	MD5 string `json:"md5,omitempty"`
	// SHA-256 checksum, 64 hexadecimal digits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{64}$')",message="must be 64 hexadecimal digits"
	SHA256 string `json:"sha256,omitempty"`
	// SHA-512 checksum, 128 hexadecimal digits.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{128}$')",message="must be 128 hexadecimal digits"
	SHA512 string `json:"sha512,omitempty"`
}

// ContainerImageSource is a disk image in a container image: the only file in its folder /disk, or
// the only layer of an OCI artifact.
type ContainerImageSource struct {
	// Reference of the container image, REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:….
	//
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][^ ]*$')",message="must be the name of a container image, such as registry.example.org/images/debian:12"
	Image string `json:"image"`
	// Secret of the type kubernetes.io/dockerconfigjson with credentials for the registry.
	//
	// +optional
	ImagePullSecret *LocalSecretRef `json:"imagePullSecret,omitempty"`
	// PEM certificates of authorities to trust in addition to the well-known ones, base64-encoded.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
}

// KindVirtualDiskSnapshot is a kind of source in addition to the kinds of block devices.
const KindVirtualDiskSnapshot = "VirtualDiskSnapshot"

// KindClaim is the kind of a source that is a claim without a VirtualDisk or VirtualImage.
// LabelDataSource with the value "true" lets all users who may create disks in the claim's
// namespace copy its data.
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

// DiskImport is the progress of importing a disk's data.
type DiskImport struct {
	// UID of the pod that may write to the disk. No other pod is started.
	//
	// +optional
	Pod types.UID `json:"pod,omitempty"`
	// UID of the PersistentVolumeClaim that the pod copies.
	//
	// +optional
	Source types.UID `json:"source,omitempty"`
	// Time when the import completed. No VM can use the disk earlier.
	//
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Number of bytes transferred. 0 if unknown.
	//
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Total number of bytes to transfer. 0 if the server doesn't report it.
	//
	// +optional
	Total int64 `json:"total,omitempty"`
	// Estimated remaining time, such as 2m30s.
	//
	// +optional
	TimeLeft string `json:"timeLeft,omitempty"`
	// Format of the image, such as qcow2. Unset until it is known.
	//
	// +optional
	Format string `json:"format,omitempty"`
	// Size in bytes of the disk in the image.
	//
	// +optional
	VirtualSize int64 `json:"virtualSize,omitempty"`
	// Checksum of the transferred file, or digest of the container image.
	//
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// Properties of the import that could not be verified.
	//
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
	// Number of consecutive failed attempts.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// Machine-readable reason for the last failure.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the last failure.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Time of the next attempt. If unset after a failure, vmop retries when the disk's definition
	// or its Secret changes.
	//
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// Versions of the definition and the Secret that the failure refers to.
	//
	// +optional
	Inputs string `json:"inputs,omitempty"`
}
