package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fixed contains the fields of a claim's spec that cannot change once the claim exists, by field name. Unset fields
// are omitted.
type fixed map[string]string

// Fields that the code treats specially.
const (
	classField = "storageClassName"
	modesField = "accessModes"
	modeField  = "volumeMode"
)

// fixedFields returns the values that a VM requests. The storage class of the runner's data is set by the
// administrator, and only applies to new VMs.
func (of claimOf) fixedFields() fixed {
	if of.disk == nil {
		return nil
	}
	spec := of.disk.Spec
	return fixedIn(corev1.PersistentVolumeClaimSpec{
		AccessModes: spec.AccessModes, Selector: spec.Selector,
		VolumeName: spec.VolumeName, StorageClassName: spec.StorageClassName,
		VolumeMode: cmp.Or(spec.VolumeMode, new(corev1.PersistentVolumeBlock)),
		DataSource: spec.DataSource, DataSourceRef: spec.DataSourceRef,
	})
}

// fixedOf returns the values in a claim.
func fixedOf(claim *corev1.PersistentVolumeClaim) fixed {
	is := fixedIn(claim.Spec)
	if class, old := claim.Annotations[corev1.BetaStorageClassAnnotation]; old {
		is[classField] = class
	}
	return is
}

func fixedIn(spec corev1.PersistentVolumeClaimSpec) fixed {
	is := fixed{}
	if spec.StorageClassName != nil {
		is[classField] = *spec.StorageClassName
	}
	if spec.VolumeMode != nil {
		is[modeField] = string(*spec.VolumeMode)
	}
	if spec.VolumeName != "" {
		is["volumeName"] = spec.VolumeName
	}
	var modes []string
	for _, mode := range spec.AccessModes {
		modes = append(modes, string(mode))
	}
	if slices.Sort(modes); len(modes) > 0 {
		is[modesField] = strings.Join(modes, ", ")
	}
	if spec.Selector != nil {
		is["selector"] = metav1.FormatLabelSelector(spec.Selector)
	}
	if from := spec.DataSource; from != nil {
		is["dataSource"] = from.Kind + " " + from.Name
	}
	if from := spec.DataSourceRef; from != nil {
		is["dataSourceRef"] = from.Kind + " " + from.Name
	}
	return is
}

// differsIn reports whether the value of a claim's field differs from the requested value. A claim with several access
// modes satisfies the default mode if it includes it.
func (f fixed) differsIn(field string, is fixed) bool {
	want, asked := f[field]
	if field == modesField && want == string(corev1.ReadWriteOnce) {
		return !slices.Contains(strings.Split(is[field], ", "), want)
	}
	return asked && want != is[field]
}

// missedFields returns the claim's values that differ from the requested values.
func (f fixed) missedFields(is fixed) fixed {
	missed := fixed{}
	for field := range f {
		if f.differsIn(field, is) {
			missed[field] = is[field]
		}
	}
	return missed
}

// notedFields returns the content of a claim's AnnotationKept.
func notedFields(claim metav1.ObjectMeta) fixed {
	var is fixed
	_ = json.Unmarshal([]byte(claim.Annotations[AnnotationKept]), &is) // missing, or edited by a user
	return is
}

// keptProblems returns a problem for each value that the claim keeps although the VM requests another value.
func (c *Claim) keptProblems(kept fixed) []Problem {
	var all []Problem
	for _, field := range slices.Sorted(maps.Keys(kept)) {
		if !c.fixed.differsIn(field, kept) {
			continue
		}
		has, wanted := cmp.Or(kept[field], "none"), cmp.Or(c.fixed[field], "none")
		all = append(all, Problem{
			Path: c.Path + ".spec." + field,
			// A pod never starts if it mounts a block volume as a file system.
			Fatal: field == modeField,
			Message: fmt.Sprintf("the claim %s exists with %s, which cannot change to %s: ask for %[2]s, "+
				"or give the disk another metadata.name, which creates an empty claim, and copy the data; "+
				"if the data is not needed, delete the claim while the VM is stopped", c.Name, has, wanted),
		})
	}
	return all
}

// hasNoClass reports whether a claim has no storage class yet. Only such a claim accepts a storage class.
func hasNoClass(claim *corev1.PersistentVolumeClaim) bool {
	_, old := claim.Annotations[corev1.BetaStorageClassAnnotation]
	return claim.Spec.StorageClassName == nil && claim.Spec.VolumeName == "" && !old
}
