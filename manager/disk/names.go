package disk

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// AppName is the value of the label app.kubernetes.io/name of the claims and pods of disks, ImageAppName
// of those of images. Those of VMs have another one: no VM takes the claim of a disk for its own.
const (
	AppName      = "vm-disk"
	ImageAppName = "vm-image"
)

// ClaimName returns the name of the claim that is made for a disk.
func ClaimName(disk string) string { return claimPrefix + disk }

const claimPrefix, imagePrefix = "vd-", "vi-"

// IsClaimName reports whether a claim of that name may be a disk's, or an image's.
func IsClaimName(name string) bool {
	return strings.HasPrefix(name, claimPrefix) || strings.HasPrefix(name, imagePrefix)
}

// ClaimOf returns the name of the claim of a disk, which is another one when the disk has been copied by a move of
// its VM, or of an image (AsDisk). That of an image is no other image's: no lock keeps a pod from being started with
// the name of a claim that is made again by then.
func ClaimOf(d *v1.VirtualDisk) string {
	if !isImage(d) {
		return cmp.Or(d.Status.Target.PersistentVolumeClaimName, ClaimName(d.Name))
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(d.UID))
	return fmt.Sprintf("%s%s-%08x", imagePrefix, d.Name, sum.Sum32())
}

// FileName is the name of a disk in a volume with a file system.
const FileName = "disk.img"

// VolumeName returns the name of a disk's volume in a pod. No other one's ends so.
func VolumeName(disk string) string { return disk + "-vd" }

// ImageVolumeName returns the name of an image's volume in a pod. No other one's ends so.
func ImageVolumeName(image string) string { return image + "-vi" }

// PodName returns the name of the pod that imports the data of a disk. Attempts have the same: there
// is one at a time.
func PodName(disk string) string { return ClaimName(disk) + importSuffix }

// ImagePodName returns the name of the pod that imports an image.
func ImagePodName(image string) string { return "vi-" + image + importSuffix }

// PodOf returns the name of the pod that imports the data of a disk, or of an image (AsDisk).
func PodOf(d *v1.VirtualDisk) string {
	if isImage(d) {
		return ImagePodName(d.Name)
	}
	return PodName(d.Name)
}

const (
	importSuffix = "-import"
	exportSuffix = "-export"
)

// ExporterName returns the name of the pod that exports a disk to a user, ImageExporterName of an image.
func ExporterName(disk string) string { return ClaimName(disk) + exportSuffix }

// ImageExporterName returns the name of the pod that exports an image to a user.
func ImageExporterName(image string) string { return "vi-" + image + exportSuffix }

// ExporterOf returns the name of the pod that exports a disk, or an image (AsDisk), to a user.
func ExporterOf(d *v1.VirtualDisk) string {
	if isImage(d) {
		return ImageExporterName(d.Name)
	}
	return ExporterName(d.Name)
}

// KeySecretOf returns the name of the Secret with the key of a pod that takes or sends data.
func KeySecretOf(pod string) string { return pod + "-tls" }

// Owner returns the name of the disk or image that owns an object; "" if none does.
func Owner(object metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || !strings.HasPrefix(owner.APIVersion, v1.GroupName+"/") || // Deckhouse has these kinds, too
		owner.Kind != string(v1.KindVirtualDisk) && owner.Kind != string(v1.KindVirtualImage) {
		return ""
	}
	return owner.Name
}
