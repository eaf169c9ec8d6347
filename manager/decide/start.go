package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// A Start is a start of a VM that has ended. Its times are whole seconds.
type Start struct {
	VM, Node string
	Pod      types.UID
	// Made is when the pod was created, Taken when the kubelet of its node took it (zero: not known), Ran when its
	// container began to run, and Guest when QEMU began to execute the guest.
	Made, Taken, Ran, Guest time.Time
}

// Preparation is from when the pod was created until its container ran: the scheduler, volumes, the image.
func (s Start) Preparation() time.Duration { return s.Ran.Sub(s.Made) }

// Machine is from then until QEMU executed the guest.
func (s Start) Machine() time.Duration { return s.Guest.Sub(s.Ran) }

// StartOf returns the start that ends with a new phase; false if none does, or if the times don't fit together, as
// after a repeated start of the container.
func StartOf(s *Snapshot, p Phase) (start Start, ended bool) {
	was := s.VM.Status.Phase
	if p.Phase != v1.PhaseRunning || was == v1.PhaseRunning || was == v1.PhaseMigrating || !running(s.Pod) {
		return start, false
	}
	c := meta.FindStatusCondition(s.VM.Status.Conditions, v1.ConditionRunning)
	if c == nil || c.Status != metav1.ConditionTrue {
		return start, false
	}
	start = Start{
		VM: s.VM.Name, Node: s.Pod.Spec.NodeName, Pod: s.Pod.UID, Made: s.Pod.CreationTimestamp.Time,
		Ran: container(s.Pod).State.Running.StartedAt.Time, Guest: c.LastTransitionTime.Time,
	}
	if taken := s.Pod.Status.StartTime; taken != nil && !taken.Time.Before(start.Made) && !taken.After(start.Ran) {
		start.Taken = taken.Time
	}
	return start, start.Preparation() >= 0 && start.Machine() >= 0
}
