package act

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/diskimage"
)

// SourceOf returns the source of a disk or image: a URL, a container image, KIND/NAME, or "Upload"; "" for a blank
// disk.
func SourceOf(s *v1.VirtualDiskSource) string {
	switch {
	case s == nil:
		return ""
	case s.HTTP != nil:
		return s.HTTP.URL
	case s.ContainerImage != nil:
		return s.ContainerImage.Image
	case s.ObjectRef != nil:
		return s.ObjectRef.Kind + "/" + s.ObjectRef.Name
	}
	return string(s.Type)
}

// Checksum parses a checksum: sha256:HEX, sha512:HEX, md5:HEX, or only HEX. It returns nil for "".
func Checksum(text string) (*v1.Checksum, error) {
	sum, err := diskimage.ParseChecksum(text)
	if err != nil {
		return nil, err
	}
	switch algorithm, digits, _ := strings.Cut(sum.String(), ":"); algorithm {
	case "sha256":
		return &v1.Checksum{SHA256: digits}, nil
	case "sha512":
		return &v1.Checksum{SHA512: digits}, nil
	case "md5":
		return &v1.Checksum{MD5: digits}, nil
	}
	return nil, nil
}

// longestAttachment and longestSnapshot are the maximum lengths of the names of attachments and snapshots.
const longestAttachment, longestSnapshot = 253, 59

// attachmentName returns the name of the attachment of a disk to a VM.
func attachmentName(vm, disk string) string {
	name := vm + "-" + disk
	return name[:min(len(name), longestAttachment)]
}

// NewAttachment returns the attachment of a disk or image to a VM. Its name is VM-NAME for a disk, VM-NAME-vi for a
// VirtualImage, and VM-NAME-cvi for a ClusterVirtualImage.
func NewAttachment(namespace, vm string, kind v1.AttachedDeviceKind, name string,
) *v1.VirtualMachineBlockDeviceAttachment {
	called := attachmentName(vm, name)
	switch kind {
	case v1.AttachedImage:
		called += "-vi"
	case v1.AttachedClusterImage:
		called += "-cvi"
	case v1.AttachedDisk:
	}
	a := &v1.VirtualMachineBlockDeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: called, Namespace: namespace}}
	a.Spec.VirtualMachineName = vm
	a.Spec.BlockDeviceRef = v1.AttachedDeviceRef{Kind: kind, Name: name}
	return a
}

// NameByTime returns the default name for a snapshot of a VM or disk, from the current time.
func NameByTime(of string, now time.Time) string {
	moment := now.UTC().Format("-20060102-150405")
	return strings.TrimRight(of[:min(len(of), longestSnapshot-len(moment))], "-") + moment
}
