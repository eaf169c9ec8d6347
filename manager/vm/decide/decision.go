package decide

import (
	"cmp"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// AnnotationCarriedOut of a VM contains the UID of a pod. The guest in this pod has ended, and the manager has
// stopped the VM in response. The annotation is written together with spec.vm.state: if the user sets the VM to
// Running before that pod is gone, the pod's outcome no longer counts.
const AnnotationCarriedOut = v1.GroupName + "/stopped-by-guest-in"

// Decision describes what happens to a VM and its pod.
type Decision struct {
	// Replicas of the StatefulSet: 1 if the VM needs a pod.
	Replicas int32
	// Stop is set if the machine has ended in a way that stops the VM.
	Stop bool
	// Replace is the reason for deleting the pod, so that its StatefulSet creates another pod; "" keeps the pod.
	Replace string
	// Again is when to decide again even without a change; zero means never.
	Again time.Time
}

// Decide returns whether the VM needs a pod, and what happens to a pod after its machine has ended.
func Decide(s Situation) Decision {
	outcome := OutcomeIn(s.VM, s.Pod)
	switch {
	case !s.Wanted():
		return Decision{}
	case s.Pod == nil && s.Other != nil && s.VM.Status.Migration.Active():
		return Decision{Replicas: 1} // the guest may be in the other pod
	case s.staysOff() && s.VM.Annotations[AnnotationCarriedOut] != string(s.Pod.UID):
		return Decision{Replicas: 1, Stop: true}
	case isGated(s.Pod) && s.Obstacle != nil:
		return Decision{}
	case s.waitsInVain():
		return Decision{Replicas: 1, Replace: "its runner waited for the guest of a migration that has failed"}
	case s.isFailing() && !s.staysOff():
		return Decision{Replicas: 1}
	}
	at := nextAttempt(s.Failures, s.Now)
	mayStart := s.Obstacle == nil && len(s.Strays) == 0 && s.Other == nil && !s.Now.Before(at)
	if at.Before(s.Now) {
		at = time.Time{}
	}
	switch {
	case outcome != nil && !Terminating(s.Pod) && mayStart:
		return Decision{Replicas: 1, Replace: cmp.Or(outcome.Message, outcome.Cause)}
	case s.Pod != nil && outcome == nil && !Terminating(s.Pod), mayStart:
		return Decision{Replicas: 1, Again: s.failuresForgottenAt()}
	}
	return Decision{Again: at}
}

// waitsInVain reports whether the pod replaced the guest's pod during a migration, and its runner waits for a guest
// that never arrives. A runner that has received its guest has reported, or is the target of a successful migration.
func (s *Snapshot) waitsInVain() bool {
	m := s.VM.Status.Migration
	if s.Pod == nil || s.Pod.Annotations[objects.AnnotationReceives] == "" || Terminating(s.Pod) || m.Active() {
		return false
	}
	of := s.Pod.UID
	return reportedStatus(s.VM, s.Pod) == nil && (m == nil || m.Target.PodUID != of && m.Source.PodUID != of)
}

// staysOff reports whether the machine has ended in a way that stops the VM. A runner that has seen the end waits
// for the manager. After a container was killed together with its runner, the container may already be running
// again.
func (s Situation) staysOff() bool {
	spec, outcome := &s.VM.Spec, OutcomeIn(s.VM, s.Pod)
	switch {
	case Terminating(s.Pod):
		return false
	case outcome != nil && outcome.Cause == causeGuest:
		return spec.GuestStops()
	case outcome != nil && vmstatus.Cause(outcome.Cause).Crash():
		return spec.CrashStops()
	}
	end := lastEnd(s.Pod)
	return spec.CrashStops() && hasVMFailed(end) && terminationOutcome(end).Cause != causeStart
}

// isFailing reports whether the runner has reported a failure, but its container is still running. The failure is
// counted when the container ends, unless the pod is being deleted at that time.
func (s Situation) isFailing() bool {
	return isContainerRunning(s.Pod) && !Terminating(s.Pod) && isFailure(OutcomeIn(s.VM, s.Pod))
}

// isFailure reports whether an outcome, which may be nil, calls for another attempt later.
func isFailure(o *v1.Outcome) bool { return o != nil && o.ExitCode != 0 && o.Cause != causeAsked }

// failuresForgottenAt returns when the VM's failures are forgotten if it keeps running. It returns zero if the VM
// isn't running or has had no failures.
func (s Situation) failuresForgottenAt() time.Time {
	if s.Failures == nil || s.Failures.Count == 0 {
		return time.Time{}
	}
	return stableAt(s.Pod)
}
