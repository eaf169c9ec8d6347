package objects

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Metadata is what the manager stores of a VM's objects, except for its pod.
type Metadata = metav1.PartialObjectMetadata

// Kind is the kind of one of those objects.
type Kind int

// The kinds, from 0 to Kinds-1.
const (
	KindSecret Kind = iota
	KindClaim
	KindConfigMap
	KindStatefulSet
	KindService
	KindDisruptionBudget
	Kinds // the number of kinds
)

// Version returns the kind with its group and version.
func (k Kind) Version() schema.GroupVersionKind {
	names := [...]string{
		KindSecret: "Secret", KindClaim: "PersistentVolumeClaim", KindConfigMap: "ConfigMap",
		KindStatefulSet: "StatefulSet", KindService: "Service", KindDisruptionBudget: "PodDisruptionBudget",
	}
	group := map[Kind]string{KindStatefulSet: "apps", KindDisruptionBudget: "policy"}[k]
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: names[k]}
}

// String returns the kind's name.
func (k Kind) String() string { return k.Version().Kind }

// NewMetadata returns the metadata of an object, with only the kind set.
func NewMetadata(k Kind) *Metadata {
	m := &Metadata{}
	m.SetGroupVersionKind(k.Version())
	return m
}

// WrittenAt returns when an object, apart from its status, was last written.
func WrittenAt(object *Metadata) *metav1.Time {
	last := object.CreationTimestamp
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && last.Before(entry.Time) {
			last = *entry.Time
		}
	}
	return &last
}

// VersionOf returns an object's resourceVersion, a number that grows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). It returns 0 if the object has
// no version.
func VersionOf(object metav1.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}
