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

func TestStartTime(t *testing.T) {
	t.Parallel()
	at := func(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(1000+second), 0)) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: objects.ContainerName, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: at(7)},
	}}}
	vm := &v1.VirtualMachine{}
	vm.Status.Phase = v1.PhaseStarting
	runs := metav1.Condition{Type: v1.ConditionRunning, Status: metav1.ConditionTrue, LastTransitionTime: at(9)}
	vm.Status.Conditions = []metav1.Condition{runs}
	s := &Snapshot{VM: vm, Pod: pod}
	got, ended := StartTimeOf(s, Phase{Phase: v1.PhaseRunning})
	require.True(t, ended)
	require.Equal(t, StartTime{Pod: 7 * time.Second, Machine: 2 * time.Second}, got)

	not := func(why string, phase v1.Phase) {
		_, ended := StartTimeOf(s, Phase{Phase: phase})
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
