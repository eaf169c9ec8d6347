package vm

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// CacheOptions are those of the manager's cache, which holds a namespace. Many VMs
// are to fit into little memory: a VM is kept without what only the API server
// needs, its pod is cut to what tells how it is, and of all else there is the
// metadata. What is not listed here is not read by accident: reading it is an
// error.
func CacheOptions(namespace string) cache.Options {
	return cache.Options{
		DefaultNamespaces:           map[string]cache.Config{namespace: {}},
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&v1.VirtualMachine{}: {Transform: cutVM},
			&corev1.Pod{}:        {Transform: cutPod, Label: labels.SelectorFromSet(labels.Set{objects.LabelName: objects.AppName})},
			metadataOf(secretKind): {Transform: cutSecret, Label: labels.SelectorFromSet(labels.Set{
				objects.LabelName: objects.AppName, objects.LabelComponent: objects.ComponentDisplaySecret,
			})},
			metadataOf(claimKind):       {Transform: cutClaim},
			metadataOf(configMapKind):   {Transform: cutOwned},
			metadataOf(statefulSetKind): {Transform: cutOwned},
			metadataOf(serviceKind):     {Transform: cutOwned},
		},
	}
}

// kind is one of which there is nothing but the metadata.
type kind int

const (
	secretKind kind = iota
	claimKind
	configMapKind
	statefulSetKind
	serviceKind
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

func metadataOf(k kind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k.version())
	return m
}
