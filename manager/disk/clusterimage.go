package disk

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A ClusterVirtualImage describes an image. Each namespace stores its own copy, as a VirtualImage.
//
// See docs/decisions/0161-cluster-images.md.

// clusterPrefix precedes the name of the ClusterVirtualImage in the name of its VirtualImages.
const clusterPrefix = "cvi-"

// ClusterImageName returns the name of the VirtualImage that stores a ClusterVirtualImage.
func ClusterImageName(of string) string { return clusterPrefix + of }

// ClusterImageOf returns the name of the ClusterVirtualImage that the VirtualImage with this name may store.
func ClusterImageOf(image string) (of string, may bool) {
	return strings.CutPrefix(image, clusterPrefix)
}

// ClusterVolumeName returns the name of a ClusterVirtualImage's volume in a pod. The suffix is unique to this kind.
func ClusterVolumeName(image string) string { return image + "-cvi" }

// StoredOf returns the VirtualImage to create in a namespace for a ClusterVirtualImage.
func StoredOf(c *v1.ClusterVirtualImage, namespace string) *v1.VirtualImage {
	owner := *metav1.NewControllerRef(c, v1.GroupVersion().WithKind(string(v1.KindClusterVirtualImage)))
	owner.BlockOwnerDeletion = nil // blocking would need permission on finalizers
	return &v1.VirtualImage{
		ObjectMeta: metav1.ObjectMeta{
			Name: ClusterImageName(c.Name), Namespace: namespace, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{v1.LabelClusterImage: c.Name},
		},
		Spec: v1.VirtualImageSpec{
			Storage: v1.ImageInClaim, DataSource: *c.Spec.DataSource.DeepCopy(),
			PersistentVolumeClaim: *c.Spec.PersistentVolumeClaim.DeepCopy(),
		},
	}
}

// Reasons why a namespace lacks the image of a ClusterVirtualImage.
const (
	reasonUnavailable = "ClusterImagesUnavailable" // the manager can't read them
	ReasonStoring     = "Storing"
	reasonImageTaken  = "ImageNameTaken"
	reasonOldImage    = "WaitingForOldImage"
)

// OfCluster resolves a ClusterVirtualImage to an image (see AsDisk). i is the VirtualImage named ClusterImageName, or
// nil if it doesn't exist. OfCluster returns nil if c is nil. If i can't be used, the result is a placeholder without
// UID and claim. Its status shows the reason, such as a missing image, or an image that belongs to a different
// ClusterVirtualImage. Only this function makes that decision.
func OfCluster(c *v1.ClusterVirtualImage, i *v1.VirtualDisk) *v1.VirtualDisk {
	if c == nil {
		return nil
	}
	name := ClusterImageName(c.Name)
	switch {
	case c.DeletionTimestamp != nil:
		none := noImage(c, v1.DiskTerminating, ReasonDeletion, "it is being deleted")
		none.DeletionTimestamp = c.DeletionTimestamp
		return none
	case i == nil:
		return noImage(c, v1.DiskPending, ReasonStoring, "it is being stored in this namespace, as the VirtualImage "+
			name)
	case isOfEarlier(c, i):
		return noImage(c, v1.DiskPending, reasonOldImage, fmt.Sprintf("the VirtualImage %s belongs to a "+
			"ClusterVirtualImage %s that was deleted: waiting until it is gone", name, c.Name))
	case !IsOfCluster(c, i):
		return noImage(c, v1.DiskFailed, reasonImageTaken, fmt.Sprintf("a VirtualImage %s already exists "+
			"that was not created from it: delete that VirtualImage, and this image is stored under its name", name))
	case i.DeletionTimestamp != nil:
		return noImage(c, v1.DiskPending, reasonOldImage, fmt.Sprintf("the VirtualImage %s is being deleted: "+
			"it is stored again when the VirtualImage is gone", name))
	}
	return i
}

// IsOfCluster reports whether the VirtualImage i stores c: c owns it, and both have the same source.
func IsOfCluster(c *v1.ClusterVirtualImage, i *v1.VirtualDisk) bool {
	return metav1.IsControlledBy(i, c) && equality.Semantic.DeepEqual(i.Spec.DataSource, &c.Spec.DataSource)
}

// isOfEarlier reports whether an image belongs to an earlier ClusterVirtualImage of the same name.
func isOfEarlier(c *v1.ClusterVirtualImage, i *v1.VirtualDisk) bool {
	owner := metav1.GetControllerOfNoCopy(i)
	return owner != nil && owner.Kind == string(v1.KindClusterVirtualImage) && owner.Name == c.Name &&
		owner.UID != c.UID
}

// noImage returns a placeholder for a missing image.
func noImage(c *v1.ClusterVirtualImage, phase v1.DiskPhase, reason, message string) *v1.VirtualDisk {
	return &v1.VirtualDisk{
		TypeMeta:   metav1.TypeMeta{Kind: string(v1.KindVirtualImage)},
		ObjectMeta: metav1.ObjectMeta{Name: ClusterImageName(c.Name)},
		Spec: v1.VirtualDiskSpec{
			DataSource: &c.Spec.DataSource, PersistentVolumeClaim: v1.VirtualDiskClaim(c.Spec.PersistentVolumeClaim),
		},
		Status: v1.VirtualDiskStatus{Phase: phase, Reason: reason, Message: message},
	}
}

// Unavailable returns a placeholder for the image of a ClusterVirtualImage that the manager can't read. why is the
// reason.
func Unavailable(name, why string) *v1.VirtualDisk {
	c := &v1.ClusterVirtualImage{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return noImage(c, v1.DiskPending, reasonUnavailable, why)
}

// Stored reports whether a result of OfCluster is a real image, not a placeholder.
func Stored(i *v1.VirtualDisk) bool { return i != nil && i.UID != "" }
