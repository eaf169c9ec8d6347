package disk

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// AsDisk returns an image as a disk of kind VirtualImage. Unlike a disk, an image is filled immediately. Afterwards it
// is read-only: no VM holds it, and it can't grow.
func AsDisk(i *v1.VirtualImage) *v1.VirtualDisk {
	s := i.Status
	return &v1.VirtualDisk{
		TypeMeta: metav1.TypeMeta{Kind: string(v1.KindVirtualImage)}, ObjectMeta: i.ObjectMeta,
		Spec: v1.VirtualDiskSpec{
			DataSource: &i.Spec.DataSource, PersistentVolumeClaim: v1.VirtualDiskClaim(i.Spec.PersistentVolumeClaim),
		},
		Status: v1.VirtualDiskStatus{
			Phase: s.Phase, Reason: s.Reason, Message: s.Message, Capacity: s.Capacity, Progress: s.Progress,
			Import: s.Import, Target: s.Target, Export: s.Export, Untrusted: s.Untrusted, Conditions: s.Conditions,
			ObservedGeneration: s.ObservedGeneration,
		},
	}
}

// ImageStatus converts the status of an image from its form as a disk.
func ImageStatus(s v1.VirtualDiskStatus) v1.VirtualImageStatus {
	is := v1.VirtualImageStatus{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, Capacity: s.Capacity, Progress: s.Progress,
		Import: s.Import, Target: s.Target, Export: s.Export, Untrusted: s.Untrusted, Conditions: s.Conditions,
		ObservedGeneration: s.ObservedGeneration,
	}
	of := s.Import
	if of == nil || of.Format == "" {
		return is
	}
	is.Format = of.Format
	if of.CompletionTime == nil {
		return is
	}
	is.CDROM = new(of.Format == formatISO)
	is.Size = v1.ImageSize{
		Stored: sizeText(of.Bytes), StoredBytes: strconv.FormatInt(of.Bytes, 10),
		Unpacked: sizeText(of.VirtualSize), UnpackedBytes: strconv.FormatInt(of.VirtualSize, 10),
	}
	return is
}

// sizeText formats a size in bytes for people, such as 1.5Gi, with at most one decimal.
func sizeText(bytes int64) string {
	for i, unit := range []string{"Gi", "Mi", "Ki"} {
		if one := int64(1) << (30 - 10*i); bytes >= one {
			text := strconv.FormatFloat(float64(bytes)/float64(one), 'f', 1, 64)
			return strings.TrimSuffix(text, ".0") + unit
		}
	}
	return strconv.FormatInt(bytes, 10)
}

// formatISO is package diskimage's name for a CD image.
const formatISO = "iso"

// IsCD reports whether an image is a CD image.
func IsCD(image *v1.VirtualDisk) bool {
	return image.Status.Import != nil && image.Status.Import.Format == formatISO
}

// isImage reports whether a disk is an image: see AsDisk.
func isImage(d *v1.VirtualDisk) bool { return d.Kind == string(v1.KindVirtualImage) }

// kindOf returns VirtualImage for an image, VirtualDisk otherwise.
func kindOf(d *v1.VirtualDisk) v1.BlockDeviceKind {
	if isImage(d) {
		return v1.KindVirtualImage
	}
	return v1.KindVirtualDisk
}

// nounForPeople returns "image" or "disk", for messages.
func (s Situation) nounForPeople() string {
	if isImage(s.Disk) {
		return "image"
	}
	return "disk"
}

// Reasons why a VM can't use an image.
const (
	ReasonImageMissing  = "ImageMissing"
	ReasonImageNotReady = "ImageNotReady"
	ReasonImageFailed   = "ImageFailed"
	ReasonImageDeleted  = "ImageDeleted"
)

// ForImage decides whether a VM that starts may use an image. i is nil if the image doesn't exist. kind and name are as
// the user wrote them: see OfCluster.
func ForImage(kind v1.BlockDeviceKind, name string, i *v1.VirtualDisk) (what Answer, reason, message string) {
	what, reason, message = AvailableImage(kind, name, i)
	if reason == ReasonImageMissing {
		message += ": the VM starts when it is created"
	}
	return what, reason, message
}

// AvailableImage decides whether a VM may use an image. i is nil if the image doesn't exist. Any number of VMs may
// share an image.
func AvailableImage(kind v1.BlockDeviceKind, name string, i *v1.VirtualDisk) (
	what Answer, reason, message string,
) {
	called := string(kind) + " " + name
	switch {
	case i == nil:
		return Wait, ReasonImageMissing, "there is no " + called
	case i.DeletionTimestamp != nil:
		return Refuse, ReasonImageDeleted, "the " + called + " is being deleted"
	case i.Status.Phase == v1.DiskFailed:
		return Refuse, ReasonImageFailed, fmt.Sprintf("the %s: %s", called, i.Status.Message)
	case i.Status.Target.UID == "", i.Status.Phase == v1.DiskPending, !Whole(i):
		return Wait, ReasonImageNotReady, fmt.Sprintf("the %s: %s", called, i.Status.Message)
	}
	return Has, "", ""
}
