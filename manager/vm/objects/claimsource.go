package objects

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// SourceFault is the reason why a volume can't be created from a snapshot yet: a reason for programs, and a message for
// users about what is missing.
type SourceFault struct{ Reason, Message string }

// sourcePath is the VM's field that names the source snapshot of its volumes.
const sourcePath = "spec.dataSource"

// fillFromSnapshot sets the VM's source snapshot as the data source of a new claim. If the snapshot doesn't contain
// the disk, the claim is created as defined.
//
// See docs/decisions/0128-vm-data-source.md.
func (c *Claim) fillFromSnapshot(vm *v1.VirtualMachine, from *v1.VirtualMachineSnapshot) {
	source := vm.Spec.DataSource
	switch {
	case source == nil:
		return
	case from == nil:
		c.Waits = &SourceFault{disk.ReasonSnapshotMissing, fmt.Sprintf("there is no VirtualMachineSnapshot %s (%s): "+
			"the VM's volumes are created when it exists", source.Name, sourcePath)}
		return
	case from.Status.Phase != v1.SnapshotReady:
		c.Waits = &SourceFault{disk.ReasonSnapshotNotReady, fmt.Sprintf("the VirtualMachineSnapshot %s (%s) is %s: %s",
			source.Name, sourcePath, cmp.Or(string(from.Status.Phase), "new"),
			cmp.Or(from.Status.Message, "the VM's volumes are created when it is Ready"))}
		return
	}
	at := slices.IndexFunc(from.Status.Volumes, func(v v1.SnapshotVolume) bool { return v.Name == c.Volume })
	if at < 0 {
		return
	}
	of, spec := from.Status.Volumes[at], c.Apply.Spec
	mode := corev1.PersistentVolumeFilesystem
	if spec.VolumeMode != nil {
		mode = *spec.VolumeMode
	}
	if mode != of.VolumeMode {
		c.Problem = &Problem{Path: cmp.Or(c.Path, sourcePath), Fatal: true, Message: fmt.Sprintf(
			"the volume %s has the mode %s in the VirtualMachineSnapshot %s, and not %s: ask for that, or give the disk another "+
				"metadata.name, which creates an empty claim", c.Volume, of.VolumeMode, source.Name, mode)}
		return
	}
	c.filled, spec.DataSourceRef = of.Untrusted, nil
	spec.WithDataSource(applycorev1.TypedLocalObjectReference().WithAPIGroup(disk.SnapshotGroup).
		WithKind("VolumeSnapshot").WithName(of.VolumeSnapshotName))
	if spec.StorageClassName == nil {
		spec.WithStorageClassName(of.StorageClassName)
	}
	c.enlargeTo(of.RestoreSize)
}

// enlargeTo raises the requested size of a new claim to at least this size.
func (c *Claim) enlargeTo(least string) {
	size, err := resource.ParseQuantity(least)
	if err != nil {
		return
	}
	if has, err := resource.ParseQuantity(requestedSize(c.Apply)); err == nil && has.Cmp(size) >= 0 {
		return
	}
	if c.Apply.Spec.Resources == nil {
		c.Apply.Spec.WithResources(applycorev1.VolumeResourceRequirements())
	}
	c.Apply.Spec.Resources.WithRequests(corev1.ResourceList{corev1.ResourceStorage: size})
	c.Apply.WithAnnotations(map[string]string{AnnotationStorage: size.String()})
}
