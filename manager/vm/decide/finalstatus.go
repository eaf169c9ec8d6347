package decide

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// NeedsFinalStatus reports whether a runner can no longer report the end of its machine, and hasn't reported it. pod
// is nil if the runner's pod doesn't exist.
//
// See docs/decisions/0036-status-writers.md.
func (s *Snapshot) NeedsFinalStatus(pod *corev1.Pod) bool {
	runner := s.VM.Status.Runner
	claimsToRun := runner != nil && runner.State != stateStopped
	switch {
	case pod == nil:
		return claimsToRun
	case isOverdue(pod, s.Now):
		return claimsToRun
	}
	end := terminatedState(pod)
	return end != nil && !end.FinishedAt.IsZero() &&
		(claimsToRun || runner == nil || runner.PodUID != pod.UID || runner.Outcome == nil)
}

// FinalStatus returns the runner's part of a VM's status as the runner in the pod would have left it. pod is nil if
// it doesn't exist.
func (s *Snapshot) FinalStatus(pod *corev1.Pod) v1.VirtualMachineStatus {
	is := s.VM.Status
	runner := v1.RunnerStatus{State: stateStopped, Reason: reasonVMStopped, Message: "the pod is gone"}
	holds := metav1.ConditionFalse
	if is.Runner != nil {
		runner.PodName, runner.PodUID = is.Runner.PodName, is.Runner.PodUID
	}
	if pod != nil {
		runner.PodName, runner.PodUID = pod.Name, pod.UID
		if end := terminatedState(pod); end != nil {
			runner.Outcome = terminationOutcome(end)
			runner.Message = cmp.Or(runner.Outcome.Message, runner.Outcome.Cause)
		} else {
			runner.Reason, runner.Message, holds = reasonNodeLost, silenceMessage(pod), metav1.ConditionUnknown
		}
	}
	final := v1.VirtualMachineStatus{Runner: &runner, VMType: is.VMType, UUID: is.UUID, RAM: "0"}
	for _, name := range v1.MachineConditions() {
		have := meta.FindStatusCondition(is.Conditions, name)
		if have == nil {
			continue // it has never been set
		}
		final.Conditions = append(final.Conditions, withTransition(have, metav1.Condition{
			Type: name, Status: holds, Reason: runner.Reason, Message: runner.Message,
			ObservedGeneration: have.ObservedGeneration,
		}, s.Now))
	}
	return final
}
