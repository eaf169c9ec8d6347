package objects

import (
	appsv1 "k8s.io/api/apps/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
)

// StatefulSet returns the object that creates the pod of a VM. It has one replica if the VM should run. During a
// migration it has two replicas, and its template is for the second pod. claims are the result of Claims. secret is
// the name of the display secret, or empty.
//
// A StatefulSet creates no second pod as long as the object of the first pod exists, so two pods never use a VM's
// disks at the same time. It doesn't replace a pod when its template changes (OnDelete). Gated pods never start:
// they protect a running VM with a definition that must not become active, in case its pod is deleted.
//
// See docs/decisions/0035-statefulset.md.
func StatefulSet(vm *v1.VirtualMachine, s Settings, claims []Claim, secret string, replicas int32, gated bool) (
	*applyappsv1.StatefulSetApplyConfiguration, error,
) {
	pods, start := replicasAndStart(vm, replicas)
	pod, err := podTemplate(vm, s, claims, secret, gated, pods > 1)
	if err != nil {
		return nil, err
	}
	spec := applyappsv1.StatefulSetSpec()
	if start > 0 {
		spec.WithOrdinals(applyappsv1.StatefulSetOrdinals().WithStart(start))
	}
	set, err := stampHash(applyappsv1.StatefulSet(vm.Name, vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(ownerReference(vm)).
		WithSpec(spec.
			WithReplicas(pods).
			WithRevisionHistoryLimit(1).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(applyappsv1.StatefulSetUpdateStrategy().WithType(
				appsv1.OnDeleteStatefulSetStrategyType)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(podSelector(vm))).
			WithTemplate(pod)), s)
	if err != nil {
		return nil, err
	}
	pod.WithAnnotations(map[string]string{AnnotationVersion: s.Version})
	return set, nil
}

// podSelector distinguishes a VM's pods from other objects with its labels.
func podSelector(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelComponent: ComponentRunner}
}
