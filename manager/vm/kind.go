package vm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// metadata is all that is known of most objects.
type metadata = metav1.PartialObjectMetadata

// kind is one of which there is nothing but the metadata.
type kind int

const (
	secretKind kind = iota
	claimKind
	configMapKind
	statefulSetKind
	serviceKind
	kinds // how many there are
)

func (k kind) version() schema.GroupVersionKind {
	names := [...]string{secretKind: "Secret", claimKind: "PersistentVolumeClaim", configMapKind: "ConfigMap", statefulSetKind: "StatefulSet", serviceKind: "Service"}
	group := ""
	if k == statefulSetKind {
		group = "apps"
	}
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: names[k]}
}

// String returns the kind's name.
func (k kind) String() string { return k.version().Kind }

func metadataOf(k kind) *metadata {
	m := &metadata{}
	m.SetGroupVersionKind(k.version())
	return m
}
