package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// trimVM keeps a VM's definition and its status, which pages show. It removes unusually large parts, because a
// guest may report anything about itself.
func trimVM(vm *v1.VirtualMachine) {
	vm.TypeMeta, vm.ManagedFields, vm.Namespace = metav1.TypeMeta{}, nil, ""
	delete(vm.Annotations, corev1.LastAppliedConfigAnnotation)
	s := &vm.Status
	s.DisplayPasswordSerial = 0
	if s.OSInfo != nil && len(s.OSInfo.Raw) > largestOSInfo {
		s.OSInfo = nil
	}
	s.Addresses = s.Addresses[:min(len(s.Addresses), mostAddresses)]
	s.Interfaces = s.Interfaces[:min(len(s.Interfaces), mostInterfaces)]
	for i := range s.Interfaces {
		ips := &s.Interfaces[i].IPs
		*ips = (*ips)[:min(len(*ips), mostAddresses)]
	}
}

// Limits for a guest's report: bytes, interfaces, and addresses of each interface.
const (
	largestOSInfo  = 2 << 10
	mostInterfaces = 16
	mostAddresses  = 16
)

// trimPod keeps a pod's place and state, the disks it mounts that outlive the VM, and its metadata.
func trimPod(pod *corev1.Pod) {
	kept := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	kept.ManagedFields, kept.OwnerReferences, kept.GenerateName, kept.Namespace = nil, nil, "", ""
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && disk.IsClaimName(v.PersistentVolumeClaim.ClaimName) {
			kept.Spec.Volumes = append(kept.Spec.Volumes, v)
		}
	}
	kept.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message, PodIP: pod.Status.PodIP,
		StartTime: pod.Status.StartTime,
	}
	for _, condition := range pod.Status.Conditions {
		if explainsPending(condition) {
			kept.Status.Conditions = append(kept.Status.Conditions, condition)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: container.Ready, RestartCount: container.RestartCount,
			State: container.State, LastTerminationState: container.LastTerminationState,
		})
	}
	*pod = *kept
}

// trimOperation keeps an operation's contents, its progress, and the user who requested it.
func trimOperation(o *v1.VirtualMachineOperation) {
	trimMetadata(&o.TypeMeta, &o.ObjectMeta, nil, []string{v1.AnnotationRequestedBy})
}

// explainsPending reports whether a condition explains why a VM does not run.
func explainsPending(c corev1.PodCondition) bool {
	switch c.Type {
	case corev1.PodScheduled, corev1.PodReady:
		return c.Status != corev1.ConditionTrue
	case corev1.DisruptionTarget:
		return c.Status == corev1.ConditionTrue
	}
	return false
}

// trimOwned trims an object that a VM or a claim owns, and that its owner identifies. It keeps the labels of an
// object without an owner, which may not belong to the manager.
func trimOwned(m *objects.Metadata) {
	var labels []string
	if metav1.GetControllerOfNoCopy(m) == nil {
		labels = []string{objects.LabelInstance, objects.LabelManagedBy}
	}
	trimMetadata(&m.TypeMeta, &m.ObjectMeta, labels,
		[]string{
			objects.AnnotationApplied, objects.AnnotationUntrusted, objects.AnnotationClass,
			objects.AnnotationDrives, objects.AnnotationTypeImage, objects.AnnotationTypeSigner,
		})
}

// trimClaim trims a claim, which has no owner.
func trimClaim(m *objects.Metadata) {
	trimMetadata(&m.TypeMeta, &m.ObjectMeta, []string{objects.LabelName, objects.LabelInstance}, []string{
		objects.AnnotationApplied, objects.AnnotationStorage, objects.AnnotationKept, objects.AnnotationUntrusted,
		objects.AnnotationToken, objects.AnnotationGuestSince,
	})
}

// trimSecret trims a display secret, which is found by its label.
func trimSecret(m *objects.Metadata) {
	trimMetadata(&m.TypeMeta, &m.ObjectMeta, []string{objects.LabelInstance}, []string{v1.AnnotationHosts})
}

// trimMetadata keeps the name, the owner and the version of an object, the time of its
// last write, and the labels and annotations with the given keys.
func trimMetadata(kind *metav1.TypeMeta, m *metav1.ObjectMeta, labels, annotations []string) {
	*kind = metav1.TypeMeta{}
	kept := metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: entriesOf(m.Labels, labels), Annotations: entriesOf(m.Annotations, annotations),
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{
			{Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller},
		}
	}
	if written := lastWrite(m.ManagedFields); written != nil && m.CreationTimestamp.Before(written) {
		kept.ManagedFields = []metav1.ManagedFieldsEntry{{Time: written}}
	}
	*m = kept
}

// entriesOf returns the entries with the given keys; nil if there are none.
func entriesOf(all map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// lastWrite returns the time of the last write to any part except the status, or nil if it is unknown.
func lastWrite(fields []metav1.ManagedFieldsEntry) *metav1.Time {
	var last *metav1.Time
	for _, entry := range fields {
		if entry.Subresource == "" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}
