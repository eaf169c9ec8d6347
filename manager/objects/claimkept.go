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

// fixed is what of a claim's spec cannot change once the claim exists, by the name of the
// field. What is not given is left out.
type fixed map[string]string

// Fields that have a meaning here.
const (
	classField = "storageClassName"
	modesField = "accessModes"
	modeField  = "volumeMode"
)

// fixed returns what a VM asks for. The storage class of the runner's data is the
// administrator's, and meant for VMs that are new.
func (of claimOf) fixed() fixed {
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

// fixedOf returns what a claim has.
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

// differs reports whether a claim has something else in a field than is asked for. A claim
// with several access modes has the default one, too.
func (f fixed) differs(field string, is fixed) bool {
	want, asked := f[field]
	if field == modesField && want == string(corev1.ReadWriteOnce) {
		return !slices.Contains(strings.Split(is[field], ", "), want)
	}
	return asked && want != is[field]
}

// missed returns what a claim has where something else is asked for.
func (f fixed) missed(is fixed) fixed {
	missed := fixed{}
	for field := range f {
		if f.differs(field, is) {
			missed[field] = is[field]
		}
	}
	return missed
}

// noted returns what AnnotationKept of a claim contains.
func noted(claim metav1.ObjectMeta) fixed {
	var is fixed
	_ = json.Unmarshal([]byte(claim.Annotations[AnnotationKept]), &is) // none, or written by hand
	return is
}

// keeps returns the problems of what a claim has where the VM asks for something else.
func (c *Claim) keeps(kept fixed) []Problem {
	var all []Problem
	for _, field := range slices.Sorted(maps.Keys(kept)) {
		if !c.fixed.differs(field, kept) {
			continue
		}
		has, wanted := cmp.Or(kept[field], "none"), cmp.Or(c.fixed[field], "none")
		all = append(all, Problem{
			Path: c.Path + ".spec." + field,
			// A pod that mounts a file system where there is none is never started.
			Fatal: field == modeField,
			Message: fmt.Sprintf("the claim %s exists with %s, which cannot change to %s: ask for %[2]s, "+
				"or give the disk another metadata.name, for which an empty claim is created, and copy the data; "+
				"if the data is not needed, delete the claim while the VM is stopped", c.Name, has, wanted),
		})
	}
	return all
}

// classless reports whether a claim has no storage class yet, which is the only time that
// it can get one.
func classless(claim *corev1.PersistentVolumeClaim) bool {
	_, old := claim.Annotations[corev1.BetaStorageClassAnnotation]
	return claim.Spec.StorageClassName == nil && claim.Spec.VolumeName == "" && !old
}
