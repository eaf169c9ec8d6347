package disk

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
)

// Reasons why a disk can't be restored from a snapshot.
const (
	ReasonSnapshotMissing  = "SnapshotMissing"
	ReasonSnapshotNotReady = "SnapshotNotReady"
	ReasonTooSmall         = "SmallerThanSnapshot"
)

// IsSnapshot reports whether objects of this kind store their data in VolumeSnapshots.
func IsSnapshot(kind string) bool {
	return kind == v1.KindVirtualDiskSnapshot || kind == v1.KindVMSnapshot
}

// isRestored reports whether the storage restores the disk's volume from a snapshot.
func isRestored(d *v1.VirtualDisk) bool {
	source := d.Spec.DataSource
	return source != nil && source.ObjectRef != nil && IsSnapshot(source.ObjectRef.Kind)
}

// sourceFault returns why the claim can't be created from the snapshot; nil if it can.
func (s Situation) sourceFault() *Refusal {
	if !isRestored(s.Disk) {
		return nil
	}
	ref, of := s.Disk.Spec.DataSource.ObjectRef, s.Source
	switch {
	case of == nil:
		return &Refusal{ReasonSnapshotMissing, fmt.Sprintf("there is no %s %s (spec.dataSource.objectRef): "+
			"the %s is created when it exists", ref.Kind, ref.Name, s.nounForPeople())}
	case of.Status.Phase != v1.SnapshotReady:
		return &Refusal{ReasonSnapshotNotReady, fmt.Sprintf("the %s %s is %s: %s", ref.Kind, ref.Name,
			cmp.Or(string(of.Status.Phase), "new"),
			cmp.Or(of.Status.Message, "the "+s.nounForPeople()+" is created when it is Ready"))}
	}
	least, err := resource.ParseQuantity(of.Status.RestoreSize)
	size := Size(s.Disk)
	if err == nil && size.Cmp(least) < 0 {
		return &Refusal{ReasonTooSmall, fmt.Sprintf("spec.persistentVolumeClaim.size: the disk of the %s %s has %s, "+
			"more than the %s of this disk: make it as large", ref.Kind, ref.Name, least.String(), size.String())}
	}
	return nil
}

// inheritsFrom returns why the files of a new disk must not be trusted, inherited from its snapshot; "" if they are
// trusted.
func (s Situation) inheritsFrom() string {
	source := s.Disk.Spec.DataSource
	switch {
	case !isRestored(s.Disk) || !OnFileSystem(s.Disk):
		return ""
	case s.Source == nil && s.Claim != nil:
		return fmt.Sprintf("the %s %s that it was created from no longer exists",
			source.ObjectRef.Kind, source.ObjectRef.Name)
	case s.Source == nil:
		return ""
	}
	return s.Source.Status.Untrusted
}

// ClaimSource returns the data source for the claim of a disk; nil if it has none.
func ClaimSource(d *v1.VirtualDisk, of *v1.VirtualDiskSnapshot) *corev1.TypedLocalObjectReference {
	if !isRestored(d) || of == nil {
		return nil
	}
	return &corev1.TypedLocalObjectReference{
		APIGroup: new(SnapshotGroup), Kind: "VolumeSnapshot", Name: of.Status.VolumeSnapshotName,
	}
}

// SnapshotGroup is the API group of VolumeSnapshots. A CSI driver brings their definitions:
// https://kubernetes-csi.github.io/docs/snapshot-controller.html
const SnapshotGroup = "snapshot.storage.k8s.io"
