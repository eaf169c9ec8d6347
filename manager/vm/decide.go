package vm

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// situation is what is known of a VM when it is decided what becomes of it.
type situation struct {
	vm       *v1.VirtualMachine
	pod      *corev1.Pod   // nil if there is none
	strays   []*corev1.Pod // pods that say they are this VM's, and are not of its stateful set
	hold     outcome       // what keeps a VM from starting; one that runs goes on
	failures *v1.Failures  // after this pod's
	now      time.Time
}

// decision is what shall become of a VM and its pod.
type decision struct {
	replicas int32
	// stop: the guest has shut itself down, and shall not be started again.
	stop bool
	// replace says why the pod has done what it was there for; its stateful set
	// makes another one if the VM shall run.
	replace string
	// again is when to look again if nothing is heard; zero: never.
	again time.Time
}

// wanted tells whether the VM shall run.
func (s situation) wanted() bool { return s.vm.Spec.VM.State == v1.Running }

// decide says whether there shall be a pod, and what becomes of one whose machine
// has ended.
func decide(s situation) decision {
	outcome := ending(s.vm, s.pod)
	switch {
	case !s.wanted():
		return decision{}
	case s.shutDown(outcome) && s.vm.Annotations[annotationCarriedOut] != string(s.pod.UID):
		return decision{replicas: 1, stop: true}
	case gated(s.pod) && s.hold != nil:
		return decision{}
	}
	at := nextAttempt(s.failures, s.now)
	mayStart := s.hold == nil && len(s.strays) == 0 && !s.now.Before(at)
	if at.Before(s.now) {
		at = time.Time{}
	}
	switch {
	case outcome != nil && !terminating(s.pod) && mayStart:
		return decision{replicas: 1, replace: cmp.Or(outcome.Message, outcome.Cause)}
	case s.pod != nil && outcome == nil && !terminating(s.pod), mayStart:
		return decision{replicas: 1, again: s.calmAt()}
	}
	return decision{again: at}
}

// shutDown tells whether the guest has shut itself down and this means that the
// VM shall be stopped. Its runner waits for the manager then.
func (s situation) shutDown(outcome *v1.Outcome) bool {
	return outcome != nil && outcome.Cause == causeGuest && s.vm.Spec.GuestShutdownStops && !terminating(s.pod)
}

// calmAt returns when the VM's failures are forgotten, if it has any and runs.
func (s situation) calmAt() time.Time {
	if s.failures == nil || s.failures.Count == 0 {
		return time.Time{}
	}
	return calmAt(s.pod)
}
