package vm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// explained waits until a VM's phase has a reason and a message.
func (w *world) explained(name, reason, message string) {
	w.t.Helper()
	eventually(w, name, &v1.VirtualMachine{}, "it is told: "+message, func(vm *v1.VirtualMachine) bool {
		return vm.Status.Reason == reason && strings.Contains(vm.Status.Message, message)
	})
}

// Why the API server takes no pod is in events of the stateful set only; the VM says
// it, and which of its fields it is about.
func TestPodRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	require.NoError(t, w.client.Update(t.Context(), namespace))
	w.create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: w.Name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("1Gi")}},
	})
	w.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.Name}})
	w.manage(nil)
	w.vm("privileged", func(vm *v1.VirtualMachine) { vm.Spec.VM.Accelerator = "kvm" })
	w.explained("privileged", reasonPodRefused, `its pod is refused: pods "privileged-0" is forbidden: violates PodSecurity "restricted:latest"`)
	w.explained("privileged", reasonPodRefused, "; it needs that for spec.vm.accelerator (kvm) (status.privileges); the namespace's label pod-security.kubernetes.io/enforce says")
	w.vm("ranked", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = "high" })
	w.explained("ranked", reasonPodRefused, "no PriorityClass with name high was found; spec.priorityClassName names it")
	w.vm("large", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumRAM = new(resource.MustParse("4Gi")) })
	w.explained("large", reasonPodRefused, "exceeded quota: small")
	w.explained("large", reasonPodRefused, "4Gi of RAM are current; spec.resources can say otherwise)")
	w.edit("ranked", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = w.Name })
	w.explained("ranked", reasonClaimPending, "")
}

// The scheduler doesn't know the VM's fields.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.NodeSelector = map[string]string{"disk": "ssd", "arch": "new"}
	vm.Spec.Affinity = &corev1.Affinity{}
	vm.Spec.VM.Accelerator = "tcg"
	v := &visit{situation: situation{vm: vm}, settings: objects.DefaultSettings()}
	for said, want := range map[string]string{
		"0/1 nodes are available: 1 Insufficient memory.":                                   "the pod requests cpu 500m, memory ",
		"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.":     "spec.nodeSelector wants nodes with the labels arch=new, disk=ssd; spec.affinity chooses among nodes",
		"0/1 nodes are available: 1 node(s) had untolerated taint(s).":                      "spec.tolerations lists",
		"0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.": "a volume of the VM can be used on certain nodes only",
	} {
		require.Contains(t, unplaced(v, said), want)
	}
	require.Empty(t, unplaced(v, "0/1 nodes are available: 1 node(s) were unschedulable."))
}
