package vm

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// one returns a string that many objects have in the memory that the others'
// have.
func one[T ~string](s T) T { return T(unique.Make(string(s)).Value()) }

// cutVM leaves of a VM its definition, and of its status what is looked at: what
// the guest says is not.
func cutVM(object any) (any, error) {
	vm, ok := object.(*v1.VirtualMachine)
	if !ok {
		return object, nil // a tombstone
	}
	vm.ManagedFields, vm.Namespace = nil, one(vm.Namespace)
	delete(vm.Annotations, corev1.LastAppliedConfigAnnotation)
	s := &vm.Status
	vm.Status = v1.VirtualMachineStatus{
		ObservedGeneration: s.ObservedGeneration, Phase: one(s.Phase), Reason: one(s.Reason), Message: s.Message,
		NodeName: one(s.NodeName), Runner: s.Runner, Failures: s.Failures, VMType: one(s.VMType), UUID: s.UUID,
		PendingChanges: s.PendingChanges, Privileges: s.Privileges, Conditions: cutConditions(s.Conditions),
	}
	return vm, nil
}

// cutConditions leaves the manager's conditions, and of the runner's those that are
// spoken in its place, without the words.
func cutConditions(all []metav1.Condition) []metav1.Condition {
	ours, runners := managerConditions(), runnerConditions()
	cut := make([]metav1.Condition, 0, len(ours)+len(runners))
	for _, c := range all {
		c.Type, c.Status = one(c.Type), one(c.Status)
		switch {
		case slices.Contains(ours, c.Type):
			c.Reason, c.Message = one(c.Reason), one(c.Message)
		case slices.Contains(runners, c.Type):
			c.Reason, c.Message = "", ""
		default:
			continue
		}
		cut = append(cut, c)
	}
	return cut
}

// cutPod leaves of a pod what tells where and how it is, and what of the VM's
// metadata it has.
func cutPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	cut := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	cut.ManagedFields, cut.OwnerReferences, cut.GenerateName, cut.Namespace = nil, nil, "", one(pod.Namespace)
	cut.Labels, cut.Annotations = oneKeyed(pod.Labels), oneKeyed(pod.Annotations)
	cut.Spec.NodeName = one(pod.Spec.NodeName)
	cut.Status = corev1.PodStatus{Phase: one(pod.Status.Phase), Reason: pod.Status.Reason, Message: pod.Status.Message}
	for _, condition := range pod.Status.Conditions {
		if telling(condition) {
			cut.Status.Conditions = append(cut.Status.Conditions, condition)
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		cut.Status.ContainerStatuses = append(cut.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: one(container.Name), Ready: container.Ready, RestartCount: container.RestartCount,
			State: container.State, LastTerminationState: container.LastTerminationState,
		})
	}
	return cut, nil
}

// oneKeyed is a map with the keys that others have.
func oneKeyed(all map[string]string) map[string]string {
	cut := make(map[string]string, len(all))
	for key, value := range all {
		cut[one(key)] = value
	}
	return cut
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

// cutOwned cuts the metadata of an object that a VM owns: which VM, its owner
// tells. One without an owner may be somebody else's.
func cutOwned(object any) (any, error) {
	return cutMetadata(object, func(m *metav1.ObjectMeta) ([]string, []string) {
		if metav1.GetControllerOfNoCopy(m) != nil {
			return nil, []string{objects.AnnotationApplied}
		}
		return []string{objects.LabelInstance, objects.LabelManagedBy}, []string{objects.AnnotationApplied}
	})
}

// cutClaim cuts the metadata of a claim, which nobody owns.
func cutClaim(object any) (any, error) {
	return cutMetadata(object, func(*metav1.ObjectMeta) ([]string, []string) {
		return []string{objects.LabelInstance}, []string{objects.AnnotationApplied, objects.AnnotationStorage}
	})
}

// cutSecret cuts the metadata of a display secret, which is found by its label.
func cutSecret(object any) (any, error) {
	return cutMetadata(object, func(*metav1.ObjectMeta) ([]string, []string) { return []string{objects.LabelInstance}, nil })
}

// cutMetadata leaves of an object of which there is nothing but the metadata whose
// it is, which version, when it was last written, and the labels and annotations
// that are kept.
func cutMetadata(object any, kept func(*metav1.ObjectMeta) (labels, annotations []string)) (any, error) {
	of, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	m := &of.ObjectMeta
	labels, annotations := kept(m)
	cut := metav1.ObjectMeta{
		Name: m.Name, Namespace: one(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: pick(m.Labels, labels), Annotations: pick(m.Annotations, annotations),
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		cut.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: one(owner.APIVersion), Kind: one(owner.Kind), Name: owner.Name, UID: owner.UID, Controller: owner.Controller,
		}}
		if owner.Name == m.Name {
			cut.OwnerReferences[0].Name = m.Name // one string for both
		}
	}
	if written := lastWrite(m.ManagedFields); written != nil && m.CreationTimestamp.Before(written) {
		cut.ManagedFields = []metav1.ManagedFieldsEntry{{Time: written}}
	}
	of.ObjectMeta = cut
	return of, nil
}

// pick returns the entries with the given keys; nil if there are none.
func pick(all map[string]string, keys []string) map[string]string {
	var cut map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if cut == nil {
				cut = map[string]string{}
			}
			cut[key] = value
		}
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
