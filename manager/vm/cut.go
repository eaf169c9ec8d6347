package vm

import (
	"encoding/json"
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

// vmForm is how VMs are kept: as JSON, found by the ConfigMap that their types come
// from.
func vmForm(namespace string) form[*v1.VirtualMachine] {
	return form[*v1.VirtualMachine]{
		cut:    cutVM,
		encode: func(vm *v1.VirtualMachine) ([]byte, error) { return json.Marshal(vm) },
		decode: func(text []byte) (*v1.VirtualMachine, error) {
			vm := &v1.VirtualMachine{}
			err := json.Unmarshal(text, vm)
			vm.Namespace = namespace
			return vm, err
		},
		group:   func(vm *v1.VirtualMachine) string { return vm.Spec.VMType.ConfigMap },
		strange: func(_, configMap string) bool { return configMap != "" },
		state:   func(vm *v1.VirtualMachine) string { return string(vm.Status.Phase) },
	}
}

// podForm is how pods are kept, found by the VM that they say they belong to.
func podForm(namespace string) form[*corev1.Pod] {
	return form[*corev1.Pod]{
		cut:    cutPod,
		encode: (*corev1.Pod).Marshal,
		decode: func(text []byte) (*corev1.Pod, error) {
			pod := &corev1.Pod{}
			err := pod.Unmarshal(text)
			pod.Namespace = namespace
			return pod, err
		},
		group:   func(pod *corev1.Pod) string { return pod.Labels[objects.LabelInstance] },
		strange: func(name, vm string) bool { return name != podName(vm) },
		quiet:   true,
	}
}

// metadataForm is how objects are kept of which there is nothing but the metadata.
func metadataForm(k kind, namespace string) form[*metadata] {
	f := form[*metadata]{
		encode: (*metadata).Marshal,
		decode: func(text []byte) (*metadata, error) {
			m := metadataOf(k)
			err := m.Unmarshal(text)
			m.Namespace = namespace
			return m, err
		},
	}
	switch k {
	case secretKind:
		f.cut, f.group = cutSecret, instanceOf
		f.strange = func(name, vm string) bool { return name != objects.DisplaySecretOf(vm) }
	case claimKind:
		f.cut, f.group = cutClaim, instanceOf
	default:
		f.cut, f.quiet = cutOwned, k == statefulSetKind // whose generation tells of changes
	}
	return f
}

func instanceOf(m *metadata) string { return m.Labels[objects.LabelInstance] }

// cutVM leaves of a VM its definition, and of its status what is looked at: what
// the guest says is not.
func cutVM(vm *v1.VirtualMachine) {
	vm.TypeMeta, vm.ManagedFields, vm.Namespace = metav1.TypeMeta{}, nil, ""
	delete(vm.Annotations, corev1.LastAppliedConfigAnnotation)
	s := &vm.Status
	vm.Status = v1.VirtualMachineStatus{
		ObservedGeneration: s.ObservedGeneration, Phase: s.Phase, Reason: s.Reason, Message: s.Message,
		NodeName: s.NodeName, Runner: s.Runner, Failures: s.Failures, VMType: s.VMType, UUID: s.UUID,
		PendingChanges: s.PendingChanges, Privileges: s.Privileges, Conditions: cutConditions(s.Conditions),
	}
}

// cutConditions leaves the manager's conditions, and of the runner's those that are
// spoken in its place, without the words.
func cutConditions(all []metav1.Condition) []metav1.Condition {
	ours, runners := managerConditions(), runnerConditions()
	cut := make([]metav1.Condition, 0, len(ours)+len(runners))
	for _, c := range all {
		switch {
		case slices.Contains(ours, c.Type):
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
func cutPod(pod *corev1.Pod) {
	cut := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	cut.ManagedFields, cut.OwnerReferences, cut.GenerateName, cut.Namespace = nil, nil, "", ""
	cut.Spec.NodeName = pod.Spec.NodeName
	cut.Status = corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message}
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
	*pod = *cut
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
func cutOwned(m *metadata) {
	var labels []string
	if metav1.GetControllerOfNoCopy(m) == nil {
		labels = []string{objects.LabelInstance, objects.LabelManagedBy}
	}
	cutMetadata(m, labels, []string{objects.AnnotationApplied})
}

// cutClaim cuts the metadata of a claim, which nobody owns.
func cutClaim(m *metadata) {
	cutMetadata(m, []string{objects.LabelName, objects.LabelInstance}, []string{objects.AnnotationApplied, objects.AnnotationStorage, objects.AnnotationKept, objects.AnnotationUntrusted})
}

// cutSecret cuts the metadata of a display secret, which is found by its label.
func cutSecret(m *metadata) { cutMetadata(m, []string{objects.LabelInstance}, nil) }

// cutMetadata leaves of an object of which there is nothing but the metadata whose
// it is, which version, when it was last written, and the labels and annotations
// that are kept.
func cutMetadata(m *metadata, labels, annotations []string) {
	m.TypeMeta = metav1.TypeMeta{}
	cut := metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: pick(m.Labels, labels), Annotations: pick(m.Annotations, annotations),
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		cut.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller}}
	}
	if written := lastWrite(m.ManagedFields); written != nil && m.CreationTimestamp.Before(written) {
		cut.ManagedFields = []metav1.ManagedFieldsEntry{{Time: written}}
	}
	m.ObjectMeta = cut
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
