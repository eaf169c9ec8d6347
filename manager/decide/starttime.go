package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A StartTime is how long a VM took to start, to whole seconds.
type StartTime struct {
	// Pod is from when the pod was created until its container ran: the scheduler, volumes, the image.
	Pod time.Duration
	// Machine is from then until QEMU executed the guest.
	Machine time.Duration
}

// StartTimeOf returns how long the start took that ends with a new phase; false if none does, or if the times don't
// fit together, as after a repeated start of the container.
func StartTimeOf(s *Snapshot, p Phase) (t StartTime, ended bool) {
	was := s.VM.Status.Phase
	if p.Phase != v1.PhaseRunning || was == v1.PhaseRunning || was == v1.PhaseMigrating || !running(s.Pod) {
		return t, false
	}
	c := meta.FindStatusCondition(s.VM.Status.Conditions, v1.ConditionRunning)
	if c == nil || c.Status != metav1.ConditionTrue {
		return t, false
	}
	began := container(s.Pod).State.Running.StartedAt
	t.Pod, t.Machine = began.Sub(s.Pod.CreationTimestamp.Time), c.LastTransitionTime.Sub(began.Time)
	return t, t.Pod >= 0 && t.Machine >= 0
}
