package status

import "fmt"

// State is where a VM is in its life.
//
//	Initializing ─▶ Starting ─▶ Booting ◀─▶ Booted
//	      │             │          │           │
//	      │             ▼          ▼           │
//	      ├───────▶ Terminating ◀──┴───────────┤
//	      ▼             ▼                      ▼
//	      └─────────▶ Stopped ◀────────────────┘
//
// A runner that takes over a VM of one that died goes from Initializing to
// whatever the VM is in. Booted goes back to Booting when the guest is reset.
// Nothing follows Stopped.
type State string

// The states.
const (
	// Initializing: the configuration is read, the plan made.
	Initializing State = "Initializing"
	// Starting: files, taps and processes are made.
	Starting State = "Starting"
	// Booting: the guest runs.
	Booting State = "Booting"
	// Booted: the guest runs, and its agent has answered.
	Booted State = "Booted"
	// Terminating: the VM was told to end.
	Terminating State = "Terminating"
	// Stopped: it has.
	Stopped State = "Stopped"
)

// Reason says in one word why a VM is in its state.
type Reason string

// The reasons that go with the states unless another is given.
const (
	RunnerStarted Reason = "RunnerStarted" // Initializing, Starting
	VMStarted     Reason = "VmStarted"     // Booting
	VMBooted      Reason = "VmBooted"      // Booted
	VMTerminating Reason = "VmTerminating" // Terminating
	VMStopped     Reason = "VmStopped"     // Stopped
)

// The other reasons of states.
const (
	// VMReset: the guest was reset and boots again.
	VMReset Reason = "VmReset"
	// RunnerRestarted: another runner started the VM, this one looks after it.
	RunnerRestarted Reason = "RunnerRestarted"
	// StartFailed: the VM never ran.
	StartFailed Reason = "StartFailed"
)

// Active tells whether the guest runs and is not being ended.
func (s State) Active() bool { return s == Booting || s == Booted }

// Known tells whether s is one of the states.
func (s State) Known() bool { return s.order() >= 0 }

// order numbers the states in the direction they follow each other.
func (s State) order() int {
	switch s {
	case Initializing:
		return 0
	case Starting:
		return 1
	case Booting:
		return 2
	case Booted:
		return 3
	case Terminating:
		return 4
	case Stopped:
		return 5
	}
	return -1
}

// reason returns the reason of a state that was entered without one.
func (s State) reason() Reason {
	switch s {
	case Booting:
		return VMStarted
	case Booted:
		return VMBooted
	case Terminating:
		return VMTerminating
	case Stopped:
		return VMStopped
	}
	return RunnerStarted
}

// CanEnter tells whether a VM in state s may enter another. It may stay.
func (s State) CanEnter(next State) bool {
	switch {
	case !next.Known():
		return false
	case s == "":
		return true
	case s == Booted && next == Booting:
		return true
	}
	return next.order() >= s.order()
}

// TransitionError is an update to a state that cannot follow the present one.
type TransitionError struct {
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("enter state %s from %s: that way leads nowhere", e.To, e.From)
}
