package controller

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// A VM of VM-Operator 4 keeps its disks, its data and its password.
func TestFromTheOriginal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vm := w.vm("web", stopped)
	original := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: w.Name, Labels: labels}
	}
	configuration := &corev1.ConfigMap{
		ObjectMeta: original("web", objects.Labels(vm)),
		Data:       map[string]string{objects.ConfigKey: `"/Runner": {vm: {name: web}}`},
	}
	configuration.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion().String(),
		Kind:       "VirtualMachine", Name: "web", UID: vm.UID,
	}}
	w.create(configuration)
	secret := &corev1.Secret{
		ObjectMeta: original("web-display-secret", objects.DisplaySecretLabels(vm)),
		Data:       map[string][]byte{objects.PasswordKey: []byte("x")},
	}
	w.create(secret)
	for name, mode := range map[string]corev1.PersistentVolumeMode{
		"web-runner-data": corev1.PersistentVolumeFilesystem,
		"web-system-disk": corev1.PersistentVolumeBlock,
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: original(name, objects.Labels(vm))}
		claim.Spec.VolumeMode = &mode
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.create(claim)
	}

	w.manage(nil)
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	w.edit("web", running)
	pod := w.boot("web")
	require.ElementsMatch(t, []string{"web-runner-data", "web-system-disk"}, claimsOf(pod))
	var all corev1.PersistentVolumeClaimList
	require.NoError(t, w.client.List(t.Context(), &all, client.InNamespace(w.Name)))
	require.Len(t, all.Items, 2, "none is made beside them")

	now, _ := get(w, "web", &corev1.ConfigMap{})
	require.Equal(t, configuration.UID, now.UID)
	require.Equal(t, vm.UID, metav1.GetControllerOf(now).UID)
	require.Contains(t, now.Data[objects.ConfigKey], "vmType: standard")
	same, _ := get(w, secret.Name, &corev1.Secret{})
	require.Equal(t, secret.ResourceVersion, same.ResourceVersion)
}

// originalPod returns a VM's pod as VM-Operator 4 creates it, with its ConfigMap and its disks.
func originalPod(vm *v1.VirtualMachine, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: vm.Namespace,
		Labels:      map[string]string{objects.LabelComponent: objects.ComponentRunner},
		Annotations: map[string]string{objects.AnnotationVersion: "4.0.3", objects.AnnotationConfigVersion: "1"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachine", Name: vm.Name, UID: vm.UID,
			BlockOwnerDeletion: new(true),
		}},
	}}
	maps.Copy(pod.Labels, objects.Labels(vm))
	pod.Spec.NodeName, pod.Spec.HostNetwork = node, true
	pod.Spec.TerminationGracePeriodSeconds = new(int64(905))
	pod.Spec.Containers = []corev1.Container{{
		Name: vm.Name, Image: "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:latest",
		SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
	}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "runner-data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: vm.Name + "-runner-data"},
	}}}
	return pod
}

// Before version 3.4, VM-Operator created a StatefulSet for each VM, with our pod's name. The manager leaves it and its
// running pod unchanged and doesn't merge it with its own.
func TestRunsInAStatefulSetOfTheOriginal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vm := w.vm("web")
	old := originalPod(vm, "")
	old.Spec.NodeName = ""
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.Name, Labels: objects.Labels(vm)},
		Spec: appsv1.StatefulSetSpec{
			// as similar to ours as possible: the API server would accept a mixture
			Selector: &metav1.LabelSelector{MatchLabels: old.Labels}, PodManagementPolicy: appsv1.ParallelPodManagement,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: old.Labels}, Spec: old.Spec},
		},
	}
	delete(set.Spec.Selector.MatchLabels, objects.LabelManagedBy)
	w.create(set)
	pod := w.pod("web")
	w.bind(pod)
	w.manage(nil)
	eventually(w, "web", &v1.VirtualMachine{}, "the StatefulSet is in the way", func(vm *v1.VirtualMachine) bool {
		c := condition(vm, v1.ConditionReconciled)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == decide.ReasonNameTaken
	})
	now, _ := get(w, "web", &appsv1.StatefulSet{})
	require.Equal(t, set.Generation, now.Generation)
	same, _ := get(w, "web-0", &corev1.Pod{})
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
	_, made := get(w, "web", &corev1.ConfigMap{})
	require.False(t, made, "its runner would read it")

	w.edit("web", stopped)
	eventually(w, "web-0", &corev1.Pod{}, "it is being deleted", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil
	})
	w.remove(pod)
	w.edit("web", running)
	w.phase("web", v1.PhaseFailed, decide.ReasonNameTaken)
	require.NoError(t, w.client.Delete(t.Context(), now))
	booted := w.boot("web")
	lost := fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, objects.AnnotationApplied)
	ours, _ := get(w, "web", &appsv1.StatefulSet{})
	w.patch(ours, lost)
	eventually(w, "web", &appsv1.StatefulSet{}, "one of ours gets its hash again", func(set *appsv1.StatefulSet) bool {
		return set.Annotations[objects.AnnotationApplied] != ""
	})
	require.Len(t, booted.Spec.Containers, 1)
	require.Equal(t, objects.ContainerName, booted.Spec.Containers[0].Name)
}
