package vm

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
)

func shutsDown(vm *v1.VirtualMachine) { vm.Spec.GuestShutdownStops = true }

// The user wants the VM to run again before the pod is gone whose guest has
// powered itself off: its word counts no more.
func TestRunAgainAfterGuestShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	w.vm("web", shutsDown)
	pod := w.boot("web")
	end()
	w.say("web", pod, stateStopped, &v1.Outcome{Cause: causeGuest})
	w.edit("web", func(vm *v1.VirtualMachine) {
		// as the manager did before the user came
		vm.Annotations = map[string]string{decide.AnnotationCarriedOut: string(pod.UID)}
	})
	w.manage(nil)
	w.removeWhenTold(pod)
	require.NotEqual(t, pod.UID, w.boot("web").UID)
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, v1.Running, vm.Spec.VM.State)
}

// removeWhenTold is for a pod whose container has ended.
func (w *world) removeWhenTold(pod *corev1.Pod) {
	w.t.Helper()
	eventually(w, pod.Name, &corev1.Pod{}, "the pod is deleted", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp != nil
	})
	w.remove(pod)
}
