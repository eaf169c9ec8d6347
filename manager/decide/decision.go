package decide

import (
	"cmp"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/vmstatus"
)

// AnnotationCarriedOut of a VM is the uid of the pod whose guest has ended so that the VM
// stays off, and whose VM has been stopped for it. It is written together with spec.vm.state: if the
// user sets the VM to Running before that pod is gone, its outcome no longer counts.
const AnnotationCarriedOut = v1.GroupName + "/stopped-by-guest-in"

// A Decision is what becomes of a VM and its pod.
type Decision struct {
	// Replicas of the stateful set: 1 if there is to be a pod.
	Replicas int32
	// Stop: the machine has ended in a way after which the VM stays off.
	Stop bool
	// Replace says why the pod is to be deleted, so that its stateful set makes
	// another one; "" if it is not.
	Replace string
	// Again is when to decide again if nothing changes; zero: never.
	Again time.Time
}

// Decide returns whether there is to be a pod, and what becomes of one whose machine has
// ended.
func Decide(s Situation) Decision {
	outcome := OutcomeIn(s.VM, s.Pod)
	switch {
	case !s.Wanted():
		return Decision{}
	case s.Pod == nil && s.Other != nil && s.VM.Status.Migration.Active():
		return Decision{Replicas: 1} // the guest may be in the other one
	case s.staysOff() && s.VM.Annotations[AnnotationCarriedOut] != string(s.Pod.UID):
		return Decision{Replicas: 1, Stop: true}
	case gated(s.Pod) && s.Obstacle != nil:
		return Decision{}
	case s.waitsInVain():
		return Decision{Replicas: 1, Replace: "its runner waited for the guest of a migration that has failed"}
	case s.failing() && !s.staysOff():
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

// waitsInVain reports whether the pod was made while a guest moved, in the place of the guest's, and its runner waits
// for a guest that never comes. One that has got a guest has reported, or is the target of a migration that has
// succeeded.
func (s *Snapshot) waitsInVain() bool {
	m := s.VM.Status.Migration
	if s.Pod == nil || s.Pod.Annotations[objects.AnnotationReceives] == "" || Terminating(s.Pod) || m.Active() {
		return false
	}
	of := s.Pod.UID
	return reported(s.VM, s.Pod) == nil && (m == nil || m.Target.PodUID != of && m.Source.PodUID != of)
}

// staysOff reports whether the machine has ended in a way after which the VM stays off. Its
// runner waits for the manager then, if it has seen the end: a container that was killed
// with its runner may be running again.
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
	return spec.CrashStops() && failed(end) && outcomeOf(end).Cause != causeStart
}

// failing reports whether the runner has reported a failure, and its container is about to
// end. Only then is the failure counted, and not if the pod is being deleted by then.
func (s Situation) failing() bool {
	return running(s.Pod) && !Terminating(s.Pod) && isFailure(OutcomeIn(s.VM, s.Pod))
}

// isFailure reports whether an outcome, which may be nil, is one that is tried again later.
func isFailure(o *v1.Outcome) bool { return o != nil && o.ExitCode != 0 && o.Cause != causeAsked }

// failuresForgottenAt returns when the VM's failures are forgotten if it keeps running;
// zero if it isn't running, or has none.
func (s Situation) failuresForgottenAt() time.Time {
	if s.Failures == nil || s.Failures.Count == 0 {
		return time.Time{}
	}
	return stableAt(s.Pod)
}
