package objects

import (
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
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(podSelector(vm)))), s)
}
