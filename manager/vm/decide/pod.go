package decide

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// deletionReserve is how long a pod may still exist after its deadline: kubelet and API server need some time.
const deletionReserve = 30 * time.Second

// runnerContainer returns the status of the runner's container, or the zero value if it doesn't exist yet.
func runnerContainer(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == objects.ContainerName {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// terminatedState returns how the runner's container ended, or nil if it is running or has never run.
func terminatedState(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil || isContainerRunning(pod) {
		return nil
	}
	return lastEnd(pod)
}

// lastEnd returns how the runner's container last ended, even if it is running again. It returns nil if the
// container has never ended.
func lastEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	status := runnerContainer(pod)
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

// isContainerRunning reports whether the runner's container is running.
func isContainerRunning(pod *corev1.Pod) bool {
	return pod != nil && runnerContainer(pod).State.Running != nil
}

// Stuck reports whether something prevents the first start of a pod. A pod with a container that is being created
// isn't stuck: it may run in a moment.
func Stuck(pod *corev1.Pod) bool {
	if pod == nil || Terminating(pod) || lastEnd(pod) != nil || isContainerRunning(pod) {
		return false
	}
	w := runnerContainer(pod).State.Waiting
	return pod.Spec.NodeName == "" || w != nil && !beingCreated(w)
}

// isGated reports whether a pod has a scheduling gate and must not start.
func isGated(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	scheduled := podCondition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Reason == corev1.PodReasonSchedulingGated
}

// Terminating reports whether a pod is being deleted.
func Terminating(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp != nil }

// isOverdue reports whether a pod that is being deleted should be gone by now.
func isOverdue(pod *corev1.Pod, now time.Time) bool {
	return Terminating(pod) && now.After(latestEnd(pod).Add(deletionReserve))
}

// latestEnd returns the end of the grace period of a pod that is being deleted. A later deletion with a shorter
// grace period moves the timestamp, but a kubelet keeps to the first period
// (https://github.com/kubernetes/kubernetes/issues/83916). The start of the first period is unknown, but it was no
// later than the later deletion.
func latestEnd(pod *corev1.Pod) time.Time {
	end, first := pod.DeletionTimestamp.Time, pod.Spec.TerminationGracePeriodSeconds
	if asked := pod.DeletionGracePeriodSeconds; asked != nil && first != nil && *asked < *first {
		end = end.Add(time.Duration(*first-*asked) * time.Second)
	}
	return end
}

// keepsFirstGrace reports whether a user has asked for a shorter grace period for a pod's deletion, but the kubelet
// ignores it.
func keepsFirstGrace(pod *corev1.Pod, now time.Time) bool {
	return isContainerRunning(pod) && now.After(pod.DeletionTimestamp.Add(deletionReserve)) && !isOverdue(pod, now)
}

// LookAgainAt returns when to check a pod that is being deleted, even if it does not change; zero means never.
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

// nodeSilent reports whether the node of a pod has stopped reporting. In this case the control plane marks the pod
// as not ready, while the kubelet's last report stays.
func nodeSilent(pod *corev1.Pod) bool {
	if pod.Status.Reason == "NodeLost" {
		return true
	}
	ready := podCondition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && isContainerRunning(pod) &&
		runnerContainer(pod).Ready
}

// podCondition returns the pod's condition of this type, or nil if it has no such condition.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// reportedStatus returns what the runner in a pod has reported, or nil if it hasn't reported yet.
func reportedStatus(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.RunnerStatus {
	if r := vm.Status.Runner; r != nil && pod != nil && r.PodUID == pod.UID {
		return r
	}
	return nil
}

// OutcomeIn returns how the machine in a pod ended, as its runner reported it. If the runner couldn't report, the
// outcome comes from its container. OutcomeIn returns nil if the machine hasn't ended.
func OutcomeIn(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.Outcome {
	if r := reportedStatus(vm, pod); r != nil && r.State == stateStopped && r.Outcome != nil {
		return r.Outcome
	}
	return terminationOutcome(terminatedState(pod))
}

// terminationOutcome reads the termination message of a container; it returns nil if the container hasn't ended.
func terminationOutcome(end *corev1.ContainerStateTerminated) *v1.Outcome {
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

// withoutExcerpt removes the excerpt of the runner's file from a message, with the mark below it: they are
// unreadable in a single line.
func withoutExcerpt(message string) string {
	var kept []string
	for line := range strings.Lines(message) {
		if !strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "|") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// States, causes and reasons that runners report, or the manager reports for them.
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

// Unseen reports whether the runner in the VM's pod has reported, but not yet about the current definition, or not
// about this revision of the drives. A revision of 0 matches any.
func Unseen(s *Snapshot, drives int64) bool {
	runner := s.VM.Status.Runner
	if runner == nil {
		return false
	}
	compared := runner.ComparedGeneration // 0: the runner's version doesn't report it
	return runner.PodUID == s.Pod.UID && runner.State != stateStopped &&
		(compared != 0 && compared != s.VM.Generation || drives != 0 && runner.DrivesRevision != drives)
}
