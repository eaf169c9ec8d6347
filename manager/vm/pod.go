package vm

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/vmstatus"
)

// late is how long after its deadline a pod may still be there: kubelet and API
// server take their time.
const late = 30 * time.Second

// container returns the status of the runner's container, the zero one if there
// is none yet.
func container(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == objects.ContainerName {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// ended returns how the runner's container ended; nil if it runs, or has not run
// yet.
func ended(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil || runs(pod) {
		return nil
	}
	return lastEnd(pod)
}

// lastEnd returns how the runner's container ended last, be it that it runs again;
// nil if it never has.
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

// runs tells whether the runner's container runs.
func runs(pod *corev1.Pod) bool { return pod != nil && container(pod).State.Running != nil }

// stuck tells whether something keeps a pod from being started, which has never
// been. One whose container is being made may run in a moment.
func stuck(pod *corev1.Pod) bool {
	if pod == nil || terminating(pod) || lastEnd(pod) != nil || runs(pod) {
		return false
	}
	w := container(pod).State.Waiting
	return pod.Spec.NodeName == "" || w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
}

// gated tells whether a pod was made that must not be started.
func gated(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	scheduled := condition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Reason == corev1.PodReasonSchedulingGated
}

// terminating tells whether a pod is being deleted.
func terminating(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp != nil }

// overdue tells whether a pod that is being deleted should be gone.
func overdue(pod *corev1.Pod, now time.Time) bool {
	return terminating(pod) && now.After(pod.DeletionTimestamp.Add(late)) // the timestamp is the end of the grace period
}

// nodeSilent tells whether the node of a pod does not report any more: then the
// control plane calls the pod not ready, while what the kubelet said last stays.
func nodeSilent(pod *corev1.Pod) bool {
	if pod.Status.Reason == "NodeLost" {
		return true
	}
	ready := condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && runs(pod) && container(pod).Ready
}

// condition returns a condition of a pod that does not hold.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// word returns what the runner in a pod said of itself; nil if it has said
// nothing yet.
func word(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.RunnerStatus {
	if said := vm.Status.Runner; said != nil && pod != nil && said.PodUID == pod.UID {
		return said
	}
	return nil
}

// ending returns how the machine in a pod ended, by the runner's own word or, when
// it could not speak any more, by what its container left; nil if it didn't.
func ending(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.Outcome {
	if said := word(vm, pod); said != nil && said.State == stateStopped && said.Outcome != nil {
		return said.Outcome
	}
	return testament(ended(pod))
}

// testament reads what a container left; nil if it has not ended.
func testament(end *corev1.ContainerStateTerminated) *v1.Outcome {
	if end == nil {
		return nil
	}
	var left v1.Outcome
	if json.Unmarshal([]byte(end.Message), &left) == nil && left.Cause != "" {
		left.ExitCode = end.ExitCode // what the kubelet saw
		left.Message = readable(withoutExcerpt(left.Message))
		return &left
	}
	message := readable(end.Message)
	if end.Reason != "" && end.Reason != "Error" && end.Reason != "Completed" {
		message = strings.TrimSpace(end.Reason + " " + message)
	}
	return &v1.Outcome{Cause: causeUnknown, ExitCode: end.ExitCode, Message: message}
}

// withoutExcerpt leaves out of a message the lines of the runner's file that it
// shows, and the mark below them: in one line with the rest nobody can read them.
func withoutExcerpt(message string) string {
	var kept []string
	for line := range strings.Lines(message) {
		if !strings.HasPrefix(strings.TrimLeft(line, " 0123456789"), "|") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// readable makes a text printable that something in a pod has written.
func readable(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ', r == 0x7f, r == '\uFFFD':
			return -1
		}
		return r
	}, strings.TrimSpace(text))
	return shorten(clean, maxMessage)
}

// maxMessage bounds messages; the CRD refuses more than 8192 characters.
const maxMessage = 4096

// shorten cuts a text after so many bytes, between characters.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}

// What runners say, and what is said in their place.
const (
	stateBooting     = string(vmstatus.StateBooting)
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

// crashed tells whether a cause is that of a machine that had run.
func crashed(cause string) bool {
	switch vmstatus.Cause(cause) {
	case vmstatus.CauseCrashed, vmstatus.CauseKilled, vmstatus.CausePanic, vmstatus.CauseTPM:
		return true
	}
	return false
}
