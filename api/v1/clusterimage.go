package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterVirtualImage defines an image for all namespaces of the cluster. When a resource in a
// namespace first refers to it, that namespace's manager stores the image there as a VirtualImage.
// The status is that of the VirtualImage.
//
// ---
// See docs/decisions/0161-cluster-images.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clustervirtualimages,singular=clustervirtualimage,shortName=cvi,scope=Cluster
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.dataSource.type`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.persistentVolumeClaim.size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.persistentVolumeClaim.storageClassName`,priority=1
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.spec.persistentVolumeClaim.accessMode`,priority=1
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.dataSource.http.url`,priority=1
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.dataSource.containerImage.image`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 56",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 56 characters: the VirtualImages that are made of it are called cvi-NAME"
type ClusterVirtualImage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Source and size of the image.
	//
	// +required
	Spec ClusterVirtualImageSpec `json:"spec,omitzero"`
}

// ClusterVirtualImageList is a list of images of the cluster.
//
// +kubebuilder:object:root=true
type ClusterVirtualImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterVirtualImage `json:"items"`
}

// ClusterVirtualImageSpec defines an image. Only its size can be changed.
//
// +kubebuilder:validation:XValidation:rule="self.dataSource == oldSelf.dataSource",fieldPath=".dataSource",message="where the data of an image comes from can't be changed: make another image"
type ClusterVirtualImageSpec struct {
	// Source of the data. Each namespace imports it separately, so the content must be fixed: HTTP
	// requires a checksum and ContainerImage a digest. Secrets are not supported.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self.type in ['HTTP', 'ContainerImage']",fieldPath=".type",message="must be HTTP or ContainerImage, as each namespace gets the data for itself; make a VirtualImage of what is uploaded, or is in a namespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.http) || has(self.http.checksum)",fieldPath=".http",message="set a checksum, such as {sha256: …}: the image is fetched for each namespace, and has to be the same each time"
	// +kubebuilder:validation:XValidation:rule="!has(self.http) || !has(self.http.secretRef)",fieldPath=".http",message="secretRef can't be given: a Secret is of one namespace, and the image of all; make a VirtualImage where the Secret is"
	// +kubebuilder:validation:XValidation:rule="!has(self.containerImage) || self.containerImage.image.matches('^[^@]+@sha256:[0-9a-f]{64}$')",fieldPath=".containerImage.image",message="must contain a digest instead of a tag, such as registry.example.org/images/debian@sha256:…: the image is fetched for each namespace, and has to be the same each time"
	// +kubebuilder:validation:XValidation:rule="!has(self.containerImage) || !has(self.containerImage.imagePullSecret)",fieldPath=".containerImage",message="imagePullSecret can't be given: a Secret is of one namespace, and the image of all; make a VirtualImage where the Secret is"
	DataSource VirtualDiskSource `json:"dataSource,omitzero"`
	// PersistentVolumeClaim of the image in each namespace.
	//
	// +required
	PersistentVolumeClaim VirtualImageClaim `json:"persistentVolumeClaim,omitzero"`
}

// LabelClusterImage of a VirtualImage is the name of the ClusterVirtualImage that it was created
// from.
const LabelClusterImage = GroupName + "/cluster-virtual-image"
