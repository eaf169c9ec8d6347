package objects

import (
	appsv1 "k8s.io/api/apps/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
)

// StatefulSet returns the object that makes the pod of a VM: one replica if it is to run, and a second one while its
// guest is being moved, whose template is that of the second pod then. claims are those of Claims, secret is the name
// of the display secret, or empty.
//
// A StatefulSet makes no second pod as long as the object of the first one exists,
// so no two pods ever have a VM's disks. It replaces no pod because its template
// changes (OnDelete). Gated pods are never started: this is for a running VM whose
// definition must not come into force, should its pod be deleted.
//
// See docs/decisions/0035-statefulset.md.
func StatefulSet(vm *v1.VirtualMachine, s Settings, claims []Claim, secret string, replicas int32, gated bool) (
	*applyappsv1.StatefulSetApplyConfiguration, error,
) {
	pods, start := scale(vm, replicas)
	pod, err := podTemplate(vm, s, claims, secret, gated, pods > 1)
	if err != nil {
		return nil, err
	}
	spec := applyappsv1.StatefulSetSpec()
	if start > 0 {
		spec.WithOrdinals(applyappsv1.StatefulSetOrdinals().WithStart(start))
	}
	set, err := stamp(applyappsv1.StatefulSet(vm.Name, vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(owner(vm)).
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

// podSelector distinguishes a VM's pods from everything else that has its labels.
func podSelector(vm *v1.VirtualMachine) map[string]string {
	return map[string]string{LabelName: AppName, LabelInstance: vm.Name, LabelComponent: ComponentRunner}
}
