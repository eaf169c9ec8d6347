package vm

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/test/wait"
)

// The address of a VM that is deleted without what it has stays with its guest, and a VM of the
// same name has it again.
func TestOrphanKeepsItsAddress(t *testing.T) {
	t.Parallel()
	w := leasing(t, addresses.Range{CIDR: "10.66.77.0/29"})
	w.manage(nil)
	vm := w.vm("web", onTap(""))
	pod := w.boot("web")
	name := addresses.AutomaticName(w.Name, "web")
	address := w.attached("web", name)
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, w.client.Delete(t.Context(), vm, &client.DeleteOptions{PropagationPolicy: &orphan}))
	wait.Until(t, func() bool { _, is := get(w, "web", &v1.VirtualMachine{}); return !is })
	left := w.address(name, "has no owner", func(a *v1.VirtualMachineIPAddress) bool {
		return len(a.OwnerReferences) == 0
	})

	w.vm("web", onTap(""))
	w.say("web", pod, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
	require.Equal(t, address, w.attached("web", name))
	now, is := get(w, name, &v1.VirtualMachineIPAddress{})
	require.True(t, is)
	require.Equal(t, left.UID, now.UID)
	same, is := get(w, pod.Name, &corev1.Pod{})
	require.True(t, is)
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
}
