package objects

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"

	v1 "vmop/api/v1"
)

// DisruptionBudget returns the object that protects a VM's pods from eviction: the guest's pod, and the target pod
// of a migration.
func DisruptionBudget(vm *v1.VirtualMachine, s Settings) (*applypolicyv1.PodDisruptionBudgetApplyConfiguration, error) {
	return stampHash(applypolicyv1.PodDisruptionBudget(vm.Name, vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(ownerReference(vm)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(0)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow). // a pod that keeps crashing has no guest
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(podSelector(vm)))), s)
}
