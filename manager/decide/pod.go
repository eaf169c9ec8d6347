package decide

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/vmstatus"
)

// deletionReserve is how long after its deadline a pod may still be there: kubelet and API
// server take their time.
const deletionReserve = 30 * time.Second

// container returns the status of the runner's container, the zero one if there is none
// yet.
func container(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == objects.ContainerName {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// ended returns how the runner's container ended; nil if it is running, or hasn't been
// yet.
func ended(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil || running(pod) {
		return nil
	}
	return lastEnd(pod)
}

// lastEnd returns how the runner's container ended last, even if it is running again; nil
// if it never has.
func lastEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	status := container(pod)
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

// running reports whether the runner's container is running.
func running(pod *corev1.Pod) bool { return pod != nil && container(pod).State.Running != nil }

// Stuck reports whether a pod that has never been started is kept from its start. One
// whose container is being created may run in a moment.
func Stuck(pod *corev1.Pod) bool {
	if pod == nil || Terminating(pod) || lastEnd(pod) != nil || running(pod) {
		return false
	}
	w := container(pod).State.Waiting
	return pod.Spec.NodeName == "" || w != nil && !beingCreated(w)
}

// gated reports whether a pod was made that must not be started.
func gated(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	scheduled := condition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Reason == corev1.PodReasonSchedulingGated
}

// Terminating reports whether a pod is being deleted.
func Terminating(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp != nil }

// overdue reports whether a pod that is being deleted should be gone.
func overdue(pod *corev1.Pod, now time.Time) bool {
	return Terminating(pod) && now.After(latestEnd(pod).Add(deletionReserve))
}

// latestEnd returns the end of the grace period of a pod that is being deleted. A shorter one,
// which a later deletion asks for, moves the timestamp, but a kubelet keeps to the first
// (https://github.com/kubernetes/kubernetes/issues/83916). When that began is not known; it
// was not after the later deletion.
func latestEnd(pod *corev1.Pod) time.Time {
	end, first := pod.DeletionTimestamp.Time, pod.Spec.TerminationGracePeriodSeconds
	if asked := pod.DeletionGracePeriodSeconds; asked != nil && first != nil && *asked < *first {
		end = end.Add(time.Duration(*first-*asked) * time.Second)
	}
	return end
}

// keepsFirstGrace reports whether a pod is being deleted whose kubelet doesn't heed the
// shorter grace period that a user has asked for.
func keepsFirstGrace(pod *corev1.Pod, now time.Time) bool {
	return running(pod) && now.After(pod.DeletionTimestamp.Add(deletionReserve)) && !overdue(pod, now)
}

// LookAgainAt returns when a pod that is being deleted must be looked at, though nothing
// about it changes; zero: never.
func LookAgainAt(pod *corev1.Pod, now time.Time) time.Time {
	if !Terminating(pod) {
		return time.Time{}
	}
	for _, end := range []time.Time{pod.DeletionTimestamp.Time, latestEnd(pod)} {
		if at := end.Add(deletionReserve + time.Second); now.Before(at) { // timestamps are whole seconds
			return at
		}
	}
	return time.Time{}
}

// nodeSilent reports whether the node of a pod has stopped reporting: then the control
// plane calls the pod not ready, while what the kubelet reported last stays.
func nodeSilent(pod *corev1.Pod) bool {
	if pod.Status.Reason == "NodeLost" {
		return true
	}
	ready := condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && running(pod) && container(pod).Ready
}

// condition returns a condition of a pod; nil if it has none of that type.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// reported returns what the runner in a pod has reported; nil if it hasn't yet.
func reported(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.RunnerStatus {
	if r := vm.Status.Runner; r != nil && pod != nil && r.PodUID == pod.UID {
		return r
	}
	return nil
}

// OutcomeIn returns how the machine in a pod ended: as its runner has reported or, if
// that could not, as its container has left it; nil if it hasn't ended.
func OutcomeIn(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.Outcome {
	if r := reported(vm, pod); r != nil && r.State == stateStopped && r.Outcome != nil {
		return r.Outcome
	}
	return outcomeOf(ended(pod))
}

// outcomeOf reads the termination message of a container; nil if it hasn't ended.
func outcomeOf(end *corev1.ContainerStateTerminated) *v1.Outcome {
	if end == nil {
		return nil
	}
	var left v1.Outcome
	if json.Unmarshal([]byte(end.Message), &left) == nil && left.Cause != "" {
		left.ExitCode = end.ExitCode // as the kubelet saw it
		left.Cause, left.Reason = Readable(left.Cause), Readable(left.Reason)
		left.Message = Readable(withoutExcerpt(left.Message))
		return &left
	}
	message := Readable(end.Message)
	if end.Reason != "" && end.Reason != "Error" && end.Reason != "Completed" {
		message = strings.TrimSpace(end.Reason + " " + message)
	}
	return &v1.Outcome{Cause: causeUnknown, ExitCode: end.ExitCode, Message: message}
}

// withoutExcerpt leaves out of a message the lines of the runner's file that it shows, and
// the mark below them: they can't be read in one line with the rest.
func withoutExcerpt(message string) string {
	var kept []string
	for line := range strings.Lines(message) {
		if !strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "|") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// What runners report, and what is reported for them.
const (
	stateBooting     = string(vmstatus.StateBooting)
	stateRunning     = string(vmstatus.StateRunning)
	stateBooted      = string(vmstatus.StateBooted)
	stateTerminating = string(vmstatus.StateTerminating)
	stateStopped     = string(vmstatus.StateStopped)

	causeGuest   = string(vmstatus.CauseGuest)
	causePanic   = string(vmstatus.CausePanic)
	causeAsked   = string(vmstatus.CauseAsked)
	causeStart   = string(vmstatus.CauseStart)
	causeUnknown = string(vmstatus.CauseUnknown)

	reasonVMStopped      = string(vmstatus.ReasonVMStopped)
	reasonChangesPending = string(vmstatus.ReasonChangesPending)
	reasonNothingPending = string(vmstatus.ReasonNothingPending)
)

// Unseen reports whether the runner in the VM's pod has reported, but not about the present definition, or not about
// the drives of a revision; 0: of any.
func Unseen(s *Snapshot, drives int64) bool {
	runner := s.VM.Status.Runner
	if runner == nil {
		return false
	}
	compared := runner.ComparedGeneration // 0: the runner is of a version that doesn't say
	return runner.PodUID == s.Pod.UID && runner.State != stateStopped &&
		(compared != 0 && compared != s.VM.Generation || drives != 0 && runner.DrivesRevision != drives)
}
