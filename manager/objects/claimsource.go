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

// A SourceFault is why a volume isn't made of a snapshot yet: a word for programs, and what is waited
// for, for people.
type SourceFault struct{ Reason, Message string }

// sourcePath is what in a VM names the snapshot of which its volumes are made.
const sourcePath = "spec.dataSource"

// fill makes a claim that is to be created be one of the snapshot of which the VM's volumes are made. A
// disk that the snapshot doesn't have is made as the definition says.
//
// See docs/decisions/0128-vm-data-source.md.
func (c *Claim) fill(vm *v1.VirtualMachine, from *v1.VirtualMachineSnapshot) {
	source := vm.Spec.DataSource
	switch {
	case source == nil:
		return
	case from == nil:
		c.Waits = &SourceFault{disk.ReasonSnapshotMissing, fmt.Sprintf("there is no VirtualMachineSnapshot %s (%s): "+
			"the VM's volumes are made when it is created", source.Name, sourcePath)}
		return
	case from.Status.Phase != v1.SnapshotReady:
		c.Waits = &SourceFault{disk.ReasonSnapshotNotReady, fmt.Sprintf("the VirtualMachineSnapshot %s (%s) is %s: %s",
			source.Name, sourcePath, cmp.Or(string(from.Status.Phase), "new"),
			cmp.Or(from.Status.Message, "the VM's volumes are made when it is Ready"))}
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
				"metadata.name, for which an empty claim is created", c.Volume, of.VolumeMode, source.Name, mode)}
		return
	}
	c.filled, spec.DataSourceRef = of.Untrusted, nil
	spec.WithDataSource(applycorev1.TypedLocalObjectReference().WithAPIGroup(disk.SnapshotGroup).
		WithKind("VolumeSnapshot").WithName(of.VolumeSnapshotName))
	if spec.StorageClassName == nil {
		spec.WithStorageClassName(of.StorageClassName)
	}
	c.enlarge(of.RestoreSize)
}

// enlarge lets a claim that is to be created request a size at least.
func (c *Claim) enlarge(least string) {
	size, err := resource.ParseQuantity(least)
	if err != nil {
		return
	}
	if has, err := resource.ParseQuantity(requested(c.Apply)); err == nil && has.Cmp(size) >= 0 {
		return
	}
	if c.Apply.Spec.Resources == nil {
		c.Apply.Spec.WithResources(applycorev1.VolumeResourceRequirements())
	}
	c.Apply.Spec.Resources.WithRequests(corev1.ResourceList{corev1.ResourceStorage: size})
	c.Apply.WithAnnotations(map[string]string{AnnotationStorage: size.String()})
}
