package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// Delays before the next attempt to start a VM: 10 seconds times the square of the number of consecutive failures,
// but at most 5 minutes.
const (
	delayUnit    = 10 * time.Second
	longestDelay = 300 * time.Second
)

// stableTime is how long a VM must run before its failures are forgotten.
const stableTime = 10 * time.Minute

// restartDelay returns how long to wait after this number of consecutive failures.
func restartDelay(count int32) time.Duration {
	count = min(count, 100) // far above the longest delay
	return min(time.Duration(count*count)*delayUnit, longestDelay)
}

// nextAttempt returns when a VM may be started again; zero means at any time. The delay starts when the manager
// noticed the failure, since the node's clock may differ. A time in the far future means that a clock was set back;
// it is ignored.
func nextAttempt(failures *v1.Failures, now time.Time) time.Time {
	if failures == nil || failures.Count == 0 {
		return time.Time{}
	}
	from := failures.LastTime
	if failures.Noticed != nil {
		from = *failures.Noticed
	}
	if from.After(now.Add(longestDelay)) {
		return time.Time{}
	}
	return from.Add(restartDelay(failures.Count))
}

// CountFailures returns the updated failures of a VM, or nil if there are no failures. It adds a failure if the
// container of the VM's pod has failed. It resets the count if the definition has changed, the VM has run for long
// enough, or the missing node now runs it. A failure is identified by its time, which is kept as long as the pod
// that shows it.
func CountFailures(had *v1.Failures, pod *corev1.Pod, changed bool, now time.Time) *v1.Failures {
	var failures v1.Failures
	if had != nil {
		failures = *had
	}
	if changed {
		failures.Count = 0
	}
	end := lastEnd(pod)
	if hasVMFailed(end) && !Terminating(pod) && !end.FinishedAt.Time.Equal(failures.LastTime.Time) {
		failures.Count++
		failures.LastTime, failures.Noticed = end.FinishedAt, &metav1.Time{Time: now.Truncate(time.Second)}
		failures.Last = terminationOutcome(end)
	}
	if at := stableAt(pod); isContainerRunning(pod) && (!now.Before(at) || isNodeMissing(failures.Last)) {
		failures.Count = 0
	}
	forgotten := end == nil || end.FinishedAt.IsZero() || !end.FinishedAt.Time.Equal(failures.LastTime.Time)
	if failures.Count == 0 && forgotten {
		return nil
	}
	if failures.Count == 0 {
		failures.Noticed, failures.Last = nil, nil
	}
	return &failures
}

// stableAt returns when a running VM will have run for long enough; zero if it is not running.
func stableAt(pod *corev1.Pod) time.Time {
	if !isContainerRunning(pod) {
		return time.Time{}
	}
	return runnerContainer(pod).State.Running.StartedAt.Add(stableTime)
}

// isNodeMissing reports whether the node caused a failure rather than the VM: the node may just be restarting.
func isNodeMissing(last *v1.Outcome) bool { return last != nil && last.Reason == reasonNodeMissing }

// hasVMFailed reports whether the end of a container was a failure of the VM. A requested stop is not a failure, and
// after a failure of the node it is unknown how the container ended.
func hasVMFailed(end *corev1.ContainerStateTerminated) bool {
	if end == nil || end.ExitCode == 0 || end.FinishedAt.IsZero() {
		return false
	}
	return end.Reason != "Unknown" && end.Reason != "ContainerStatusUnknown" &&
		terminationOutcome(end).Cause != causeAsked
}
