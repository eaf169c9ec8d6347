package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// VolumeKind and ClassKind are the kinds of the group that are read, as unstructured objects.
var (
	VolumeKind = schema.GroupVersionKind{Group: disk.SnapshotGroup, Version: "v1", Kind: "VolumeSnapshot"}
	ClassKind  = schema.GroupVersionKind{Group: disk.SnapshotGroup, Version: "v1", Kind: "VolumeSnapshotClass"}
)

// AppName is the value of the label app.kubernetes.io/name of the VolumeSnapshots of disks.
const AppName = "vm-disk-snapshot"

// VolumeName returns the name of the VolumeSnapshot of a snapshot.
func VolumeName(of string) string { return "vds-" + of }

// Volume is the state of a VolumeSnapshot.
type Volume struct {
	UID     types.UID
	Owner   types.UID  // UID of its controller, or ""
	Created *time.Time // creation time of the data; nil: unknown
	Ready   bool       // volumes can be created from it
	Size    string     // minimum size of such volumes
	Failure string     // error of the driver, which keeps trying
	Leaves  bool       // it is being deleted
}

// VolumeOf reads a VolumeSnapshot, or returns nil if o is nil. It ignores fields that do not match the
// definition.
func VolumeOf(o *unstructured.Unstructured) *Volume {
	if o == nil {
		return nil
	}
	v := &Volume{UID: o.GetUID(), Leaves: o.GetDeletionTimestamp() != nil}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		v.Owner = owner.UID
	}
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(o.Object, append([]string{"status"}, fields...)...)
		return found
	}
	if at, err := time.Parse(time.RFC3339, text("creationTime")); err == nil {
		v.Created = &at
	}
	v.Ready, _, _ = unstructured.NestedBool(o.Object, "status", "readyToUse")
	v.Size, v.Failure = text("restoreSize"), text("error", "message")
	return v
}

// Class describes a VolumeSnapshotClass.
type Class struct {
	Name, Driver string
	Default      bool
}

// annotationDefault marks the class for VolumeSnapshots without a class.
const annotationDefault = disk.SnapshotGroup + "/is-default-class"

// ClassOf reads a VolumeSnapshotClass.
func ClassOf(o *unstructured.Unstructured) Class {
	driver, _, _ := unstructured.NestedString(o.Object, "driver")
	return Class{Name: o.GetName(), Driver: driver, Default: o.GetAnnotations()[annotationDefault] == "true"}
}

// ChooseClass returns the class for the volumes of a driver, or the reason why no class can be used. If name
// isn't "", only that class, requested in field, is suitable.
func ChooseClass(all []Class, name, driver, field string) (class, reason, message string) {
	var of []Class
	for _, c := range all {
		if c.Name == name && c.Driver != driver {
			return "", ReasonNoClass, fmt.Sprintf("the VolumeSnapshotClass %s (%s) is of the driver %s, and the "+
				"disk is of %s", name, field, c.Driver, driver)
		}
		if c.Driver == driver && (name == "" || c.Name == name) {
			of = append(of, c)
		}
	}
	if marked := slices.DeleteFunc(slices.Clone(of), func(c Class) bool { return !c.Default }); len(marked) > 0 {
		of = marked
	}
	slices.SortFunc(of, func(a, b Class) int { return cmp.Compare(a.Name, b.Name) })
	switch {
	case len(of) == 1:
		return of[0].Name, "", ""
	case name != "":
		return "", ReasonNoClass, fmt.Sprintf("there is no VolumeSnapshotClass %s (%s): it is looked for "+
			"every minute (kubectl get volumesnapshotclass)", name, field)
	case len(of) == 0:
		return "", ReasonUnsupported, fmt.Sprintf("there is no VolumeSnapshotClass for the driver %s of the disk: either it can't "+
			"make snapshots, or its administrator has to add one; it is looked for every minute", driver)
	}
	names := make([]string, 0, len(of))
	for _, c := range of {
		names = append(names, c.Name)
	}
	return "", ReasonNoClass, fmt.Sprintf("the driver %s of the disk has several VolumeSnapshotClasses (%s), and not one that is the "+
		"default: name one in %s", driver, strings.Join(names, ", "), field)
}

// HasVolume reports whether a disk has a volume that can be captured in a snapshot.
func HasVolume(d *v1.VirtualDisk) bool {
	return d.Status.Target.UID != "" && (d.Status.Phase == v1.DiskReady || d.Status.Phase == v1.DiskResizing)
}

// Undisturbed reports whether a disk was unused by VMs between two readings of it.
func Undisturbed(before, after *v1.VirtualDisk) bool {
	return disk.Holder(before) == "" && disk.Holder(after) == "" && before.UID == after.UID &&
		detachedSince(before).Equal(detachedSince(after)) && before.Status.Target.UID == after.Status.Target.UID
}

// detachedSince returns the time since when the disk's use has been unchanged.
func detachedSince(d *v1.VirtualDisk) time.Time {
	for _, c := range d.Status.Conditions {
		if c.Type == v1.DiskConditionInUse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
