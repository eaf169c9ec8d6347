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

// VolumeKind and ClassKind are what is read of the group, as objects without types of their own.
var (
	VolumeKind = schema.GroupVersionKind{Group: disk.SnapshotGroup, Version: "v1", Kind: "VolumeSnapshot"}
	ClassKind  = schema.GroupVersionKind{Group: disk.SnapshotGroup, Version: "v1", Kind: "VolumeSnapshotClass"}
)

// AppName is the value of the label app.kubernetes.io/name of the VolumeSnapshots of disks.
const AppName = "vm-disk-snapshot"

// VolumeName returns the name of the VolumeSnapshot of a snapshot.
func VolumeName(of string) string { return "vds-" + of }

// A Volume is a VolumeSnapshot.
type Volume struct {
	UID     types.UID
	Owner   types.UID  // of its controller, "" if it has none
	Created *time.Time // the moment that it shows; nil: not known yet
	Ready   bool       // volumes can be made of it
	Size    string     // of such volumes, at least
	Failure string     // of the driver, which tries on
	Leaves  bool       // it is being deleted
}

// VolumeOf reads a VolumeSnapshot, nil if there is none. What has another form than its
// definition says is left out.
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

// A Class is a VolumeSnapshotClass.
type Class struct {
	Name, Driver string
	Default      bool
}

// annotationDefault marks the class of VolumeSnapshots that name none.
const annotationDefault = disk.SnapshotGroup + "/is-default-class"

// ClassOf reads a VolumeSnapshotClass.
func ClassOf(o *unstructured.Unstructured) Class {
	driver, _, _ := unstructured.NestedString(o.Object, "driver")
	return Class{Name: o.GetName(), Driver: driver, Default: o.GetAnnotations()[annotationDefault] == "true"}
}

// ChooseClass returns the class for the volumes of a driver, the one that is asked for in a field if
// name isn't "", or why there is none.
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

// HasVolume reports whether a disk has a volume, of which a snapshot can be made.
func HasVolume(d *v1.VirtualDisk) bool {
	return d.Status.Target.UID != "" && (d.Status.Phase == v1.DiskReady || d.Status.Phase == v1.DiskResizing)
}

// Undisturbed reports whether no VM has had a disk between two readings of it.
func Undisturbed(before, after *v1.VirtualDisk) bool {
	return disk.Holder(before) == "" && disk.Holder(after) == "" && before.UID == after.UID &&
		since(before).Equal(since(after)) && before.Status.Target.UID == after.Status.Target.UID
}

// since returns since when no VM has had a disk.
func since(d *v1.VirtualDisk) time.Time {
	for _, c := range d.Status.Conditions {
		if c.Type == v1.DiskConditionInUse {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
