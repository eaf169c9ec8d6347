package decide

import (
	"fmt"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Eviction describes what happens to a VM when its node is drained.
type Eviction struct {
	// Held is set if the pod must not be evicted.
	Held bool
	// Move is set if the guest must move away from its node.
	Move bool
	// Why is the reason why the guest can't move although its eviction is blocked; "" otherwise.
	Why string
	// Again is when to decide again even without a change; zero means never.
	Again time.Time
}

// Delays after a failed migration.
const (
	moveAgain = time.Minute
	// moveFailed is how long a pod may be evicted if its guest isn't required to migrate.
	moveFailed = 10 * time.Minute
)

// drainPrefix starts the names of operations that move guests away from a drained node.
const drainPrefix = "drain-"

// EvictionOf returns what happens to a VM when its node is drained.
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

// failedToLeave returns when the last attempt to move the guest away from its pod's node failed; zero if no attempt
// was made.
func (s *Snapshot) failedToLeave() time.Time {
	m := s.VM.Status.Migration
	if m == nil || m.Stage != v1.MigrationFailed || m.EndTime == nil || m.Source.PodUID != s.Pod.UID ||
		!strings.HasPrefix(m.Operation, drainPrefix) {
		return time.Time{}
	}
	return m.EndTime.Time
}

// Leave returns the operation that moves the guest away from its node. Each pod gets one operation, plus another
// after each failed migration.
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

// DrainHeld returns the event that a VM prevents its node from being drained.
func DrainHeld(s *Snapshot, e Eviction) Event {
	note := fmt.Sprintf("node %s is being drained, and waits for the VM (spec.evictionStrategy: %s): its guest can't be "+
		"moved: %s", s.Pod.Spec.NodeName, s.VM.Spec.EvictionStrategy, e.Why)
	return Event{"DrainHeld", "Evict", ByManager, Readable(note), string(s.Pod.UID) + e.Why, true}
}
