package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// Start describes the finished start of a VM. Its times are whole seconds.
type Start struct {
	VM, Node string
	Pod      types.UID
	// Made is when the pod was created, and Taken when the kubelet of its node accepted it (zero if unknown). Ran is
	// when its container began to run, and Guest when QEMU began to execute the guest.
	Made, Taken, Ran, Guest time.Time
}

// Preparation is the time from the creation of the pod until its container ran: scheduler, volumes, image.
func (s Start) Preparation() time.Duration { return s.Ran.Sub(s.Made) }

// Machine is the time from the container's start until QEMU executed the guest.
func (s Start) Machine() time.Duration { return s.Guest.Sub(s.Ran) }

// StartOf returns the start that a new phase completes. It returns false if the phase completes no start, or if the
// times are inconsistent, for example after a repeated start of the container.
func StartOf(s *Snapshot, p Phase) (start Start, ended bool) {
	was := s.VM.Status.Phase
	if p.Phase != v1.PhaseRunning || was == v1.PhaseRunning || was == v1.PhaseMigrating || !isContainerRunning(s.Pod) {
		return start, false
	}
	c := meta.FindStatusCondition(s.VM.Status.Conditions, v1.ConditionRunning)
	if c == nil || c.Status != metav1.ConditionTrue {
		return start, false
	}
	start = Start{
		VM: s.VM.Name, Node: s.Pod.Spec.NodeName, Pod: s.Pod.UID, Made: s.Pod.CreationTimestamp.Time,
		Ran: runnerContainer(s.Pod).State.Running.StartedAt.Time, Guest: c.LastTransitionTime.Time,
	}
	if taken := s.Pod.Status.StartTime; taken != nil && !taken.Time.Before(start.Made) && !taken.After(start.Ran) {
		start.Taken = taken.Time
	}
	return start, start.Preparation() >= 0 && start.Machine() >= 0
}
