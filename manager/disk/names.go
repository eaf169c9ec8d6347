package disk

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// AppName and ImageAppName are the values of the label app.kubernetes.io/name on the claims and pods of disks and of
// images. Objects of VMs have a different value, so that a VM never takes over a disk's claim.
const (
	AppName      = "vm-disk"
	ImageAppName = "vm-image"
)

// ClaimName returns the name of the first claim of a disk.
func ClaimName(disk string) string { return claimPrefix + disk }

const claimPrefix, imagePrefix = "vd-", "vi-"

// IsClaimName reports whether a claim with this name may belong to a disk or image.
func IsClaimName(name string) bool {
	return strings.HasPrefix(name, claimPrefix) || strings.HasPrefix(name, imagePrefix)
}

// ClaimOf returns the name of the claim of a disk or image (see AsDisk). A disk's claim changes when a migration copies
// the disk. The name of an image's claim includes a hash of the image's UID: images have no lock, so a pod could
// otherwise mount the claim of a later image with the same name.
func ClaimOf(d *v1.VirtualDisk) string {
	if !isImage(d) {
		return cmp.Or(d.Status.Target.PersistentVolumeClaimName, ClaimName(d.Name))
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(d.UID))
	return fmt.Sprintf("%s%s-%08x", imagePrefix, d.Name, sum.Sum32())
}

// FileName is the name of the disk's file in a volume with a file system.
const FileName = "disk.img"

// VolumeName returns the name of a disk's volume in a pod. The suffix is unique to disks.
func VolumeName(disk string) string { return disk + "-vd" }

// ImageVolumeName returns the name of an image's volume in a pod. The suffix is unique to images.
func ImageVolumeName(image string) string { return image + "-vi" }

// PodName returns the name of the pod that imports the data of a disk. All attempts use the same name, so only one can
// run at a time.
func PodName(disk string) string { return ClaimName(disk) + importSuffix }

// ImagePodName returns the name of the pod that imports an image.
func ImagePodName(image string) string { return "vi-" + image + importSuffix }

// importPodOf returns the name of the pod that imports the data of a disk or image (see AsDisk).
func importPodOf(d *v1.VirtualDisk) string {
	if isImage(d) {
		return ImagePodName(d.Name)
	}
	return PodName(d.Name)
}

const (
	importSuffix = "-import"
	exportSuffix = "-export"
)

// ExporterName returns the name of the pod that exports a disk to a user.
func ExporterName(disk string) string { return ClaimName(disk) + exportSuffix }

// ImageExporterName returns the name of the pod that exports an image to a user.
func ImageExporterName(image string) string { return "vi-" + image + exportSuffix }

// ExporterOf returns the name of the pod that exports a disk or image (see AsDisk) to a user.
func ExporterOf(d *v1.VirtualDisk) string {
	if isImage(d) {
		return ImageExporterName(d.Name)
	}
	return ExporterName(d.Name)
}

// KeySecretOf returns the name of the Secret with the TLS key of a pod that receives or sends data.
func KeySecretOf(pod string) string { return pod + "-tls" }

// Owner returns the name of the disk or image that owns an object; "" if it has no such owner.
func Owner(object metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || !strings.HasPrefix(owner.APIVersion, v1.GroupName+"/") || // Deckhouse has the same kinds
		owner.Kind != string(v1.KindVirtualDisk) && owner.Kind != string(v1.KindVirtualImage) {
		return ""
	}
	return owner.Name
}
