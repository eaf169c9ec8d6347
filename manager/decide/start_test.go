package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

func TestStartOf(t *testing.T) {
	t.Parallel()
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(1000+second), 0)) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0), UID: "u"}}
	pod.Spec.NodeName, pod.Status.StartTime = "n", new(at(3))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.ContainerName, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: at(7)},
	}}}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	vm.Status.Phase = v1.PhaseStarting
	runs := metav1.Condition{Type: v1.ConditionRunning, Status: metav1.ConditionTrue, LastTransitionTime: at(9)}
	vm.Status.Conditions = []metav1.Condition{runs}
	s := &Snapshot{VM: vm, Pod: pod}
	got, ended := StartOf(s, Phase{Phase: v1.PhaseRunning})
	require.True(t, ended)
	require.Equal(t, Start{
		VM: "web", Node: "n", Pod: "u",
		Made: at(0).Time, Taken: at(3).Time, Ran: at(7).Time, Guest: at(9).Time,
	}, got)
	require.Equal(t, 7*time.Second, got.Preparation())
	require.Equal(t, 2*time.Second, got.Machine())

	not := func(why string, phase v1.Phase) {
		_, ended := StartOf(s, Phase{Phase: phase})
		require.False(t, ended, why)
	}
	not("it doesn't run", v1.PhaseStarting)
	vm.Status.Phase = v1.PhaseMigrating
	not("a guest that has moved has not started", v1.PhaseRunning)
	vm.Status.Phase = v1.PhaseStarting
	vm.Status.Conditions[0].LastTransitionTime = at(5)
	not("the container has been started again", v1.PhaseRunning)
	vm.Status.Conditions[0] = runs
	s.Pod = nil
	not("there is no pod", v1.PhaseRunning)
}
