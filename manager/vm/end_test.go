package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/publish"
	"vmop/test/wait"
)

func shutsDown(vm *v1.VirtualMachine) { vm.Spec.GuestShutdownStops = true }

// The guest powers itself off, and the VM is stopped with it.
func TestGuestShutdownStops(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", shutsDown)
	pod := w.boot("web")
	w.say("web", pod, stateStopped, &v1.Outcome{Cause: causeGuest})
	vm := eventually(w, "web", &v1.VirtualMachine{}, "it is set to Stopped", func(vm *v1.VirtualMachine) bool {
		return vm.Spec.VM.State == v1.Stopped
	})
	require.Equal(t, string(pod.UID), vm.Annotations[decide.AnnotationCarriedOut])
	w.removeWhenTold(pod)
	w.phase("web", v1.PhaseStopped, decide.ReasonGuestShutdown)
	events := w.events("web", "Stopped")
	require.Len(t, events, 1)
	require.Equal(t, decide.ByGuest, events[0].Labels[publish.LabelInitiator])
	_, is := get(w, pod.Name, &corev1.Pod{})
	require.False(t, is)

	w.edit("web", running)
	require.NotEqual(t, pod.UID, w.boot("web").UID)
}

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

// The guest powers itself off, and is started again in a new pod.
func TestGuestShutdownRestarts(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.say("web", pod, stateStopped, &v1.Outcome{Cause: causeGuest})
	w.removeWhenTold(pod)
	require.NotEqual(t, pod.UID, w.boot("web").UID)
	events := w.events("web", "Restarting")
	require.Len(t, events, 1)
	require.Equal(t, decide.ByGuest, events[0].Labels[publish.LabelInitiator])
	require.Contains(t, events[0].Note, causeGuest)
	wait.Until(t, func() bool { return len(w.events("web", "Started")) == 2 })
}

// A pod that a user deletes is a restart.
func TestDeletedPod(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	w.phase("web", v1.PhaseStopping, decide.ReasonPodDeleted)
	w.gone("web", pod)
	require.NotEqual(t, pod.UID, w.boot("web").UID)
	require.Equal(t, decide.ByUser, w.events("web", "Restarting")[0].Labels[publish.LabelInitiator])
}

// A machine that fails is started again after a time that grows, or when its
// definition changes; when it has run for long enough, all is forgotten.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.report(pod, w.endedWith(139, `{"cause":"killed","exitCode":139,"message":"killed by signal 11"}`))
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonCrashed)
	require.Contains(t, vm.Status.Message, "killed by signal 11; failed starts in a row: 1, next attempt at ")
	require.Equal(t, int32(1), vm.Status.Failures.Count)
	require.Equal(t, &v1.Outcome{Cause: "killed", ExitCode: 139, Message: "killed by signal 11"},
		vm.Status.Runner.Outcome)
	require.Equal(t, metav1.ConditionFalse, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionRunning).Status)
	require.Zero(t, vm.Status.CPUs)
	require.Empty(t, vm.Status.ConsoleClient)
	require.NotEmpty(t, vm.Status.UUID)
	w.removeWhenTold(pod)
	eventually(w, "web", &appsv1.StatefulSet{}, "no pod", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 0
	})

	w.advance(9 * time.Second)
	vm = w.phase("web", v1.PhaseFailed, decide.ReasonCrashed)
	require.Contains(t, vm.Status.Message, "killed by signal 11", "it is known although the pod is gone")
	w.advance(2 * time.Second)
	second := w.pod("web")
	w.bind(second)
	w.report(second, w.endedWith(1, `{"cause":"start failed","reason":"ConfigInvalid","exitCode":1,"message":"no such bridge"}`))
	vm = w.phase("web", v1.PhaseFailed, decide.ReasonStartFailed)
	require.Equal(t, int32(2), vm.Status.Failures.Count)
	require.Contains(t, vm.Status.Message, "no such bridge")
	w.removeWhenTold(second)
	require.Len(t, w.events("web", decide.ReasonStartFailed), 1)
	require.Len(t, w.events("web", decide.ReasonCrashed), 1)

	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.BootMenu = new(true) })
	third := w.pod("web")
	vm = eventually(w, "web", &v1.VirtualMachine{}, "tried at once", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Failures == nil
	})
	require.Equal(t, vm.Generation, vm.Status.ObservedGeneration)
	w.bind(third)
	w.report(third, w.endedWith(1, "no JSON"))
	w.phase("web", v1.PhaseFailed, decide.ReasonStartFailed)
	w.removeWhenTold(third)
	w.advance(11 * time.Second)
	w.boot("web")
	vm, _ = get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, int32(1), vm.Status.Failures.Count)
	w.advance(stableTime)
	eventually(w, "web", &v1.VirtualMachine{}, "forgotten", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Failures == nil
	})
}

// A node that fails is no failure of the VM.
func TestNodeFails(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	status := w.endedWith(255, "")
	status.State.Terminated.Reason = "Unknown"
	w.report(pod, status)
	w.removeWhenTold(pod)
	w.boot("web")
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Nil(t, vm.Status.Failures)
}

// A pod that is gone without a word says nothing any more: it is said in its place.
func TestLastWord(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.edit("web", stopped)
	w.removeWhenTold(pod)
	vm := eventually(w, "web", &v1.VirtualMachine{}, "the last word", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Runner.State == stateStopped && vm.Status.Phase == v1.PhaseStopped
	})
	for _, name := range []string{v1.ConditionRunning, v1.ConditionBooted} {
		c := meta.FindStatusCondition(vm.Status.Conditions, name)
		require.Equal(t, metav1.ConditionFalse, c.Status)
		require.Equal(t, reasonVMStopped, c.Reason)
	}
	require.Zero(t, vm.Status.CPUs)
	require.Equal(t, "0", vm.Status.RAM)
	require.Equal(t, pod.UID, vm.Status.Runner.PodUID)
}

// removeWhenTold is for a pod whose container has ended.
func (w *world) removeWhenTold(pod *corev1.Pod) {
	w.t.Helper()
	eventually(w, pod.Name, &corev1.Pod{}, "the pod is deleted", func(p *corev1.Pod) bool {
		return p.UID == pod.UID && p.DeletionTimestamp != nil
	})
	w.remove(pod)
}
