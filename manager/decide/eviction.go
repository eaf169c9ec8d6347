package decide

import (
	"fmt"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// An Eviction is what becomes of a VM whose node is being drained.
type Eviction struct {
	// Held: the pod can't be evicted.
	Held bool
	// Move: the guest is to move away from its node.
	Move bool
	// Why says why the guest neither moves nor can be evicted; "" otherwise.
	Why string
	// Again is when to decide again if nothing changes; zero: never.
	Again time.Time
}

// Times of migrations that have failed.
const (
	moveAgain = time.Minute
	// moveFailed is how long one lets a pod be evicted that need not move.
	moveFailed = 10 * time.Minute
)

// drainPrefix begins the names of operations by which guests leave a node that is being drained.
const drainPrefix = "drain-"

// EvictionOf returns what becomes of a VM whose node is being drained, or would be.
//
// See docs/decisions/0137-drained-nodes.md.
func EvictionOf(s *Snapshot) (e Eviction) {
	strategy := s.VM.Spec.EvictionStrategy
	if strategy != v1.EvictionLiveMigrate && strategy != v1.EvictionLiveMigrateIfPossible {
		return e
	}
	copies := objects.CopiesDisks(s.VM, nil)
	why := objects.Unmovable(s.VM, copies)
	if why == "" {
		why = objects.OneNode(s.VM, copies)
	}
	m, must := s.VM.Status.Migration, strategy == v1.EvictionLiveMigrate
	e.Held = must || why == ""
	switch {
	case !s.Drained || s.Pod == nil || Terminating(s.Pod) || m.Active():
		return e
	case why != "":
		if must {
			e.Why = why
		}
		return e
	case s.VM.Status.Phase != v1.PhaseRunning:
		return e
	}
	if failed := s.failedToLeave(); !failed.IsZero() {
		if !must && s.Now.Before(failed.Add(moveFailed)) {
			e.Held, e.Again = false, failed.Add(moveFailed)
			return e
		}
		if at := failed.Add(moveAgain); s.Now.Before(at) {
			e.Why, e.Again = m.Message, at
			return e
		}
	}
	e.Move = true
	return e
}

// failedToLeave returns when the guest could not be moved away from the node of its pod; zero if that was not tried.
func (s *Snapshot) failedToLeave() time.Time {
	m := s.VM.Status.Migration
	if m == nil || m.Stage != v1.MigrationFailed || m.EndTime == nil || m.Source.PodUID != s.Pod.UID ||
		!strings.HasPrefix(m.Operation, drainPrefix) {
		return time.Time{}
	}
	return m.EndTime.Time
}

// Leave returns the operation by which the guest leaves its node. Of each pod, and after each migration that has
// failed, there is one.
func Leave(s *Snapshot) *v1.VirtualMachineOperation {
	after := "0"
	if failed := s.failedToLeave(); !failed.IsZero() {
		after = fmt.Sprintf("%x", failed.Unix())
	}
	uid, _, _ := strings.Cut(string(s.Pod.UID), "-")
	o := &v1.VirtualMachineOperation{}
	o.Name, o.Namespace = drainPrefix+s.VM.Name+"-"+uid+"-"+after, s.VM.Namespace
	o.Spec = v1.VirtualMachineOperationSpec{Type: v1.OperationEvict, VirtualMachineName: s.VM.Name}
	return o
}

// DrainHeld is the event that a node can't be drained because of a VM.
func DrainHeld(s *Snapshot, e Eviction) Event {
	note := fmt.Sprintf("node %s is being drained, and waits for the VM (spec.evictionStrategy: %s), whose guest can't be "+
		"moved: %s", s.Pod.Spec.NodeName, s.VM.Spec.EvictionStrategy, e.Why)
	return Event{"DrainHeld", "Evict", ByManager, Readable(note), string(s.Pod.UID) + e.Why, true}
}
