package objects

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"

	v1 "vmop/api/v1"
)

// DisruptionBudget returns the object for which the pods of a VM can't be evicted: not the guest's, nor that to which
// it moves.
func DisruptionBudget(vm *v1.VirtualMachine, s Settings) (*applypolicyv1.PodDisruptionBudgetApplyConfiguration, error) {
	return stamp(applypolicyv1.PodDisruptionBudget(vm.Name, vm.Namespace).
		WithLabels(Labels(vm)).WithOwnerReferences(owner(vm)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(0)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow). // one that crashes again and again has no guest
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(podSelector(vm)))), s)
}
