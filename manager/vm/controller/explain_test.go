package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// explained waits until a VM's phase has a reason and a message.
func (w *world) explained(name, reason, message string) {
	w.t.Helper()
	eventually(w, name, &v1.VirtualMachine{}, "the message "+message, func(vm *v1.VirtualMachine) bool {
		return vm.Status.Reason == reason && strings.Contains(vm.Status.Message, message)
	})
}

// When the API server rejects a pod, the error is only in the stateful set's events; the VM shows it and the
// responsible field.
func TestPodRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   w.Name,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	require.NoError(t, w.client.Update(t.Context(), namespace))
	w.create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: w.Name},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("1Gi")},
		},
	})
	w.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.Name}})
	w.manage(nil)
	w.vm("privileged", func(vm *v1.VirtualMachine) { vm.Spec.VM.Accelerator = "kvm" })
	w.explained("privileged", decide.ReasonPodRefused, `the pod is rejected: pods "privileged-0" is forbidden: violates PodSecurity "restricted:latest"`)
	w.explained("privileged", decide.ReasonPodRefused, "; it needs this for spec.vm.accelerator (kvm) (status.privileges); the namespace's label pod-security.kubernetes.io/enforce sets")
	w.vm("ranked", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = "high" })
	w.explained("ranked", decide.ReasonPodRefused, "no PriorityClass with name high was found; it is set by spec.priorityClassName")
	w.vm("large", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumRAM = new(resource.MustParse("4Gi")) })
	w.explained("large", decide.ReasonPodRefused, "exceeded quota: small")
	w.explained("large", decide.ReasonPodRefused, "4Gi of RAM in spec.vm; spec.resources overrides it)")
	w.edit("ranked", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = w.Name })
	w.explained("ranked", decide.ReasonClaimPending, "")
}
