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
	"vmop/nbdexport"
	"vmop/vmspec"
)

// Drives are those of disks that are attached to a VM while its guest runs. They are in the
// runner's configuration behind those of the definition, and in an annotation of its ConfigMap.
type Drives struct {
	// Revision grows with each change of All, so that the runner can say by which configuration
	// it has compared what QEMU has. 0: there have never been any.
	Revision int64 `json:"revision"`
	// All of them, images first, sorted by name.
	All []AttachedDrive `json:"drives,omitempty"`
}

// An AttachedDrive is the drive of a disk or an image that is attached while the guest runs.
type AttachedDrive struct {
	// Disk is the name of the VirtualDisk; "" for an image.
	Disk string `json:"disk,omitempty"`
	// Image is the name of the VirtualImage; "" for a disk. Cluster: of the ClusterVirtualImage. CD: it is that of a
	// CD.
	Image   string `json:"image,omitempty"`
	Cluster bool   `json:"cluster,omitempty"`
	CD      bool   `json:"cd,omitempty"`
	// Export is the name of the export of the image.
	Export string `json:"export,omitempty"`
	// Address of the export.
	Address string `json:"address"`
}

// Ref names the disk or image.
func (a AttachedDrive) Ref() v1.AttachedDeviceRef {
	switch {
	case a.Cluster:
		return v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: a.Image}
	case a.Image != "":
		return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: a.Image}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: a.Disk}
}

// DrivesOf returns those of the configuration in a ConfigMap. What is not the manager's own
// writing counts as none.
func DrivesOf(configMap *Metadata) (d Drives) {
	if configMap == nil || json.Unmarshal([]byte(configMap.Annotations[AnnotationDrives]), &d) != nil {
		return Drives{}
	}
	return d
}

// Of returns the drive of a disk or image; nil if there is none.
func (d Drives) Of(ref v1.AttachedDeviceRef) *AttachedDrive {
	i := slices.IndexFunc(d.All, func(a AttachedDrive) bool { return a.Ref() == ref })
	if i < 0 {
		return nil
	}
	return &d.All[i]
}

// Next returns the drives with a revision that is no other one's: a number that is greater than
// the present one and, as the ConfigMap may have been lost, no less than floor.
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

// record returns the annotation of the drives; "" for none.
func (d Drives) record() (string, error) {
	if d.Revision == 0 {
		return "", nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("write the drives of attached disks: %w", err)
	}
	return string(text), nil
}

// drive returns the drive as it is in the runner's configuration.
func (a AttachedDrive) drive() vmspec.Drive {
	drive := vmspec.Drive{
		Serial: AttachedSerial(a.Ref()), ReadOnly: a.Image != "", NBD: &vmspec.NBD{
			Host: a.Address, Port: nbdexport.Port, Export: cmp.Or(a.Export, ExportName(a.Disk)), TLS: DiskTLSDir,
		},
	}
	if a.CD {
		drive.Type = vmspec.DriveIDECD
	}
	return drive
}

// AttachedSerial returns the serial number of a disk that is attached while the guest runs: its
// name or, of one that is too long for it, the beginning and a hash. That of an image ends in a way that no disk's
// does.
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

// DiskTLSName returns the name of the Secret of a VM by which it is a client of exports.
func DiskTLSName(vm string) string { return vm + "-disk-tls" }

// DiskTLSKeys of the Secret with the VM's authority, of which the pod gets the certificate only.
const (
	AuthorityCertificateKey = nbdexport.CAFile
	AuthorityKeyKey         = "ca-key.pem"
)

// DiskTLS returns the Secret by which a VM is a client of exports: its authority, and a
// certificate. It is created once, when the first disk is attached.
func DiskTLS(vm *v1.VirtualMachine, authority, client nbdexport.Pair, s Settings) (
	*applycorev1.SecretApplyConfiguration, error,
) {
	return stamp(applycorev1.Secret(DiskTLSName(vm.Name), vm.Namespace).WithLabels(Labels(vm)).
		WithOwnerReferences(owner(vm)).WithType(corev1.SecretTypeOpaque).WithImmutable(true).
		WithData(map[string][]byte{
			AuthorityCertificateKey: authority.Certificate, AuthorityKeyKey: authority.Key,
			nbdexport.ClientCertificateFile: client.Certificate, nbdexport.ClientKeyFile: client.Key,
		}), s)
}

// diskTLSVolume is the folder of that Secret in the pod. It is there from the start, as it can't be
// added later, and empty as long as there is no Secret.
func diskTLSVolume(vm *v1.VirtualMachine) *applycorev1.VolumeApplyConfiguration {
	source := applycorev1.SecretVolumeSource().WithSecretName(DiskTLSName(vm.Name)).WithOptional(true).
		WithDefaultMode(fileMode)
	for _, key := range []string{AuthorityCertificateKey, nbdexport.ClientCertificateFile, nbdexport.ClientKeyFile} {
		source.WithItems(applycorev1.KeyToPath().WithKey(key).WithPath(key))
	}
	return applycorev1.Volume().WithName(diskTLSVolumeName).WithSecret(source)
}

// diskTLSVolumeName is the name of the volume with the certificates of a client of exports.
const diskTLSVolumeName = "disk-tls"

// HasDiskTLS reports whether a VM's pod has the folder for certificates of a client of exports:
// those that an earlier manager has made don't.
func HasDiskTLS(pod *metav1.ObjectMeta) bool {
	_, has := pod.Annotations[AnnotationDiskTLSVersion]
	return has
}
