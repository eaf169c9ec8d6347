package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// Delays before a VM whose start failed is started again: 10 seconds times the square of
// the failures in a row, but at most 5 minutes.
const (
	delayUnit    = 10 * time.Second
	longestDelay = 300 * time.Second
)

// stableTime is how long a VM must run until its failures are forgotten.
const stableTime = 10 * time.Minute

// delay returns how long to wait after so many failures in a row.
func delay(count int32) time.Duration {
	count = min(count, 100) // far above the longest delay
	return min(time.Duration(count*count)*delayUnit, longestDelay)
}

// nextAttempt returns when a VM may be started again; zero if it may at any time. The
// delay is counted from when the failure was noticed, since the clock of the node may
// differ. A time in the far future means that a clock was set back; it is ignored.
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
	return from.Add(delay(failures.Count))
}

// CountFailures returns the failures of a VM, nil if there are none: one more than it
// had if its pod's container has failed, none if the definition has changed, the VM has
// run for long enough, or the node that was missing runs it now. A failure is identified
// by its time, which is kept as long as the pod that has it.
func CountFailures(had *v1.Failures, pod *corev1.Pod, changed bool, now time.Time) *v1.Failures {
	var failures v1.Failures
	if had != nil {
		failures = *had
	}
	if changed {
		failures.Count = 0
	}
	end := lastEnd(pod)
	if failed(end) && !Terminating(pod) && !end.FinishedAt.Time.Equal(failures.LastTime.Time) {
		failures.Count++
		failures.LastTime, failures.Noticed = end.FinishedAt, &metav1.Time{Time: now.Truncate(time.Second)}
		failures.Last = outcomeOf(end)
	}
	if at := stableAt(pod); running(pod) && (!now.Before(at) || nodeMissing(failures.Last)) {
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

// stableAt returns when a running VM will have run for long enough; zero if it is not
// running.
func stableAt(pod *corev1.Pod) time.Time {
	if !running(pod) {
		return time.Time{}
	}
	return container(pod).State.Running.StartedAt.Add(stableTime)
}

// nodeMissing reports whether a failure was the node's rather than the VM's: it may be
// just restarting.
func nodeMissing(last *v1.Outcome) bool { return last != nil && last.Reason == ReasonNodeMissing }

// failed reports whether an end was a failure of the VM: not if a stop was requested,
// nor if the node failed, after which it is not known how the container ended.
func failed(end *corev1.ContainerStateTerminated) bool {
	if end == nil || end.ExitCode == 0 || end.FinishedAt.IsZero() {
		return false
	}
	return end.Reason != "Unknown" && end.Reason != "ContainerStatusUnknown" && outcomeOf(end).Cause != causeAsked
}
