package objects

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/diskimage/nbd"
	"vmop/vmspec"
)

// Drives are the drives of disks attached to a VM while its guest runs. The runner's configuration lists them after
// the drives of the definition, and an annotation of its ConfigMap contains them.
type Drives struct {
	// Revision grows with each change of All, so that the runner can report which configuration it has compared with
	// QEMU. 0 means that the VM has never had such drives.
	Revision int64 `json:"revision"`
	// All drives, images first, sorted by name.
	All []AttachedDrive `json:"drives,omitempty"`
}

// AttachedDrive is the drive of a disk or an image attached while the guest runs.
type AttachedDrive struct {
	// Disk is the name of the VirtualDisk; "" for an image.
	Disk string `json:"disk,omitempty"`
	// Image is the name of the VirtualImage; "" for a disk. Cluster is set for a ClusterVirtualImage, and CD for the
	// image of a CD.
	Image   string `json:"image,omitempty"`
	Cluster bool   `json:"cluster,omitempty"`
	CD      bool   `json:"cd,omitempty"`
	// Export is the name of the image's export.
	Export string `json:"export,omitempty"`
	// Address of the export.
	Address string `json:"address"`
}

// Ref returns the reference to the disk or image.
func (a AttachedDrive) Ref() v1.AttachedDeviceRef {
	switch {
	case a.Cluster:
		return v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: a.Image}
	case a.Image != "":
		return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: a.Image}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: a.Disk}
}

// DrivesOf returns the drives in a ConfigMap. It returns no drives if the annotation is missing or was not written
// by the manager.
func DrivesOf(configMap *Metadata) (d Drives) {
	if configMap == nil || json.Unmarshal([]byte(configMap.Annotations[AnnotationDrives]), &d) != nil {
		return Drives{}
	}
	return d
}

// Of returns the drive of a disk or image, or nil if it has no drive.
func (d Drives) Of(ref v1.AttachedDeviceRef) *AttachedDrive {
	i := slices.IndexFunc(d.All, func(a AttachedDrive) bool { return a.Ref() == ref })
	if i < 0 {
		return nil
	}
	return &d.All[i]
}

// Next returns the drives with a unique revision: it is greater than the current revision and, since the ConfigMap
// may have been lost, at least floor. Unchanged drives keep their revision.
func (d Drives) Next(all []AttachedDrive, floor int64) Drives {
	slices.SortFunc(all, func(a, b AttachedDrive) int {
		return cmp.Or(cmp.Compare(a.Disk, b.Disk), cmp.Compare(a.Image, b.Image),
			cmp.Compare(a.Ref().Kind, b.Ref().Kind))
	})
	if slices.Equal(d.All, all) {
		return d
	}
	return Drives{Revision: max(d.Revision+1, floor), All: all}
}

// drivesAnnotation returns the annotation for the drives, or "" without drives.
func (d Drives) drivesAnnotation() (string, error) {
	if d.Revision == 0 {
		return "", nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("write the drives of attached disks: %w", err)
	}
	return string(text), nil
}

// driveSpec returns the drive for the runner's configuration.
func (a AttachedDrive) driveSpec() vmspec.Drive {
	drive := vmspec.Drive{
		Serial: AttachedSerial(a.Ref()), ReadOnly: a.Image != "", NBD: &vmspec.NBD{
			Host: a.Address, Port: nbd.Port, Export: cmp.Or(a.Export, ExportName(a.Disk)), TLS: diskTLSDir,
		},
	}
	if a.CD {
		drive.Type = vmspec.DriveIDECD
	}
	return drive
}

// AttachedSerial returns the serial number of a disk or image attached while the guest runs. It is the name or, if
// the name is too long, its beginning and a hash. The serial number of an image has a suffix that no disk uses.
func AttachedSerial(ref v1.AttachedDeviceRef) string {
	name, suffix := ref.Name, ""
	switch ref.Kind {
	case v1.AttachedImage:
		suffix = ".vi"
	case v1.AttachedClusterImage:
		suffix = ".cvi"
	case v1.AttachedDisk:
	}
	if len(name)+len(suffix) <= vmspec.LongestSerial {
		return name + suffix
	}
	const digits = 7
	sum := sha256.Sum256([]byte(name))
	return name[:vmspec.LongestSerial-1-digits-len(suffix)] + "-" + hex.EncodeToString(sum[:])[:digits] + suffix
}

// DiskTLSName returns the name of the Secret that a VM uses as a client of exports.
func DiskTLSName(vm string) string { return vm + "-disk-tls" }

// Keys of the Secret for disk TLS with the VM's certificate authority. The pod receives only the certificate.
const (
	AuthorityCertificateKey = nbd.CAFile
	AuthorityKeyKey         = "ca-key.pem"
)

// DiskTLS returns the Secret that a VM uses as a client of exports: its certificate authority and a client
// certificate. It is created once, when the first disk is attached.
func DiskTLS(vm *v1.VirtualMachine, authority, client nbd.Pair, s Settings) (
	*applycorev1.SecretApplyConfiguration, error,
) {
	return stampHash(applycorev1.Secret(DiskTLSName(vm.Name), vm.Namespace).WithLabels(Labels(vm)).
		WithOwnerReferences(ownerReference(vm)).WithType(corev1.SecretTypeOpaque).WithImmutable(true).
		WithData(map[string][]byte{
			AuthorityCertificateKey: authority.Certificate, AuthorityKeyKey: authority.Key,
			nbd.ClientCertificateFile: client.Certificate, nbd.ClientKeyFile: client.Key,
		}), s)
}

// diskTLSVolume returns the volume that mounts the disk TLS Secret in the pod. It exists from the start, since
// volumes can't be added later, and is empty as long as the Secret doesn't exist.
func diskTLSVolume(vm *v1.VirtualMachine) *applycorev1.VolumeApplyConfiguration {
	source := applycorev1.SecretVolumeSource().WithSecretName(DiskTLSName(vm.Name)).WithOptional(true).
		WithDefaultMode(fileMode)
	for _, key := range []string{AuthorityCertificateKey, nbd.ClientCertificateFile, nbd.ClientKeyFile} {
		source.WithItems(applycorev1.KeyToPath().WithKey(key).WithPath(key))
	}
	return applycorev1.Volume().WithName(diskTLSVolumeName).WithSecret(source)
}

// diskTLSVolumeName is the name of the volume with the client certificates for exports.
const diskTLSVolumeName = "disk-tls"

// HasDiskTLS reports whether a VM's pod has the volume for client certificates. Pods of earlier managers lack it.
func HasDiskTLS(pod *metav1.ObjectMeta) bool {
	_, has := pod.Annotations[AnnotationDiskTLSVersion]
	return has
}
