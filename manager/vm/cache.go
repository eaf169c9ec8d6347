package vm

import (
	"strings"

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
			metadataOf(secretKind): {Transform: cutMetadata, Label: labels.SelectorFromSet(labels.Set{
				objects.LabelName: objects.AppName, objects.LabelComponent: objects.ComponentDisplaySecret,
			})},
			metadataOf(claimKind):       {Transform: cutMetadata},
			metadataOf(configMapKind):   {Transform: cutMetadata},
			metadataOf(statefulSetKind): {Transform: cutMetadata},
			metadataOf(serviceKind):     {Transform: cutMetadata},
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

// cutVM leaves out of a VM what nobody reads.
func cutVM(object any) (any, error) {
	if vm, ok := object.(*v1.VirtualMachine); ok {
		vm.ManagedFields = nil
		delete(vm.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return object, nil
}

// cutPod leaves of a pod what tells where and how it is, and what of the VM's
// metadata it has.
func cutPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	cut := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	cut.ManagedFields, cut.GenerateName = nil, ""
	cut.Spec.NodeName = pod.Spec.NodeName
	cut.Status = corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, PodIPs: pod.Status.PodIPs}
	for _, condition := range pod.Status.Conditions {
		if telling(condition) {
			cut.Status.Conditions = append(cut.Status.Conditions, condition)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		cut.Status.ContainerStatuses = append(cut.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: container.Ready, RestartCount: container.RestartCount,
			State: container.State, LastTerminationState: container.LastTerminationState,
		})
	}
	return cut, nil
}

// telling tells whether a condition says why a VM doesn't run.
func telling(c corev1.PodCondition) bool {
	switch c.Type {
	case corev1.PodScheduled, corev1.PodReady:
		return c.Status != corev1.ConditionTrue
	case corev1.DisruptionTarget:
		return c.Status == corev1.ConditionTrue
	}
	return false
}

// cutMetadata cuts the metadata of an object of which there is nothing else.
func cutMetadata(object any) (any, error) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = cutMeta(m.ObjectMeta)
	}
	return object, nil
}

// cutMeta leaves of an object's metadata whose it is, which version, what was
// applied, and when it was last written.
func cutMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	cut := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences,
	}
	for key, value := range m.Labels {
		if strings.HasPrefix(key, "app.kubernetes.io/") {
			metav1.SetMetaDataLabel(&cut, key, value)
		}
	}
	for _, key := range []string{objects.AnnotationApplied, objects.AnnotationStorage} {
		if value, ok := m.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&cut, key, value)
		}
	}
	if written := lastWrite(m.ManagedFields); written != nil {
		cut.ManagedFields = []metav1.ManagedFieldsEntry{{Time: written}}
	}
	return cut
}

// lastWrite returns when any part but the status was last written, if that is
// known.
func lastWrite(fields []metav1.ManagedFieldsEntry) *metav1.Time {
	var last *metav1.Time
	for _, entry := range fields {
		if entry.Subresource == "" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}
