package disk

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A ClusterVirtualImage says what an image is, and each namespace stores it as a VirtualImage of its own.
//
// See docs/decisions/0161-cluster-images.md.

// clusterPrefix is before the name of a ClusterVirtualImage in that of the VirtualImages that are made of it.
const clusterPrefix = "cvi-"

// ClusterImageName returns the name of the VirtualImage that is made of a ClusterVirtualImage.
func ClusterImageName(of string) string { return clusterPrefix + of }

// ClusterImageOf returns the ClusterVirtualImage of which the VirtualImage of a name may have been made.
func ClusterImageOf(image string) (of string, may bool) {
	return strings.CutPrefix(image, clusterPrefix)
}

// ClusterVolumeName returns the name of a ClusterVirtualImage's volume in a pod. No other one's ends so.
func ClusterVolumeName(image string) string { return image + "-cvi" }

// StoredOf returns the VirtualImage that a namespace makes of a ClusterVirtualImage.
func StoredOf(c *v1.ClusterVirtualImage, namespace string) *v1.VirtualImage {
	owner := *metav1.NewControllerRef(c, v1.GroupVersion().WithKind(string(v1.KindClusterVirtualImage)))
	owner.BlockOwnerDeletion = nil // which would ask for a right to finalizers
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

// Reasons why there is no image in the namespace of a ClusterVirtualImage.
const (
	ReasonUnavailable = "ClusterImagesUnavailable" // the manager can't see them
	ReasonStoring     = "Storing"
	ReasonImageTaken  = "ImageNameTaken"
	ReasonOldImage    = "WaitingForOldImage"
)

// OfCluster returns the image (AsDisk) that is meant by the name of a ClusterVirtualImage, which is nil if there is
// none: i, the VirtualImage of the name ClusterImageName, or nil, if there is none. One that isn't that of this
// ClusterVirtualImage is never returned: then the status of what is returned says why there is none, and it has neither
// a uid nor a claim. This is the only place where that is decided.
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
		return noImage(c, v1.DiskPending, ReasonOldImage, fmt.Sprintf("the VirtualImage %s is that of a "+
			"ClusterVirtualImage %s that was deleted: waiting until it is gone", name, c.Name))
	case !IsOfCluster(c, i):
		return noImage(c, v1.DiskFailed, ReasonImageTaken, fmt.Sprintf("a VirtualImage %s already exists "+
			"that was not created from it: delete that VirtualImage, and this image is stored under its name", name))
	case i.DeletionTimestamp != nil:
		return noImage(c, v1.DiskPending, ReasonOldImage, fmt.Sprintf("the VirtualImage %s is being deleted: "+
			"it is stored again when the VirtualImage is gone", name))
	}
	return i
}

// IsOfCluster reports whether an image is what a namespace has of a ClusterVirtualImage: that owns it, and it is
// made of the same.
func IsOfCluster(c *v1.ClusterVirtualImage, i *v1.VirtualDisk) bool {
	return metav1.IsControlledBy(i, c) && equality.Semantic.DeepEqual(i.Spec.DataSource, &c.Spec.DataSource)
}

// isOfEarlier reports whether an image is that of another ClusterVirtualImage of the same name.
func isOfEarlier(c *v1.ClusterVirtualImage, i *v1.VirtualDisk) bool {
	owner := metav1.GetControllerOfNoCopy(i)
	return owner != nil && owner.Kind == string(v1.KindClusterVirtualImage) && owner.Name == c.Name &&
		owner.UID != c.UID
}

// noImage is in the place of an image that there is none of.
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

// Unavailable is in the place of the image of a ClusterVirtualImage that a manager can't see, for a reason.
func Unavailable(name, why string) *v1.VirtualDisk {
	c := &v1.ClusterVirtualImage{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return noImage(c, v1.DiskPending, ReasonUnavailable, why)
}

// Stored reports whether there is an image, which OfCluster has returned.
func Stored(i *v1.VirtualDisk) bool { return i != nil && i.UID != "" }
