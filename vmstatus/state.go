package vmstatus

// State is where a VM is in its life.
//
//	Initializing ─▶ Starting ─▶ Booting ─▶ Running ─▶ Booted
//	      │             │          │          │          │
//	      │             ▼          ▼          ▼          │
//	      ├───────▶ Terminating ◀──┴──────────┴──────────┤
//	      ▼             ▼                                ▼
//	      └─────────▶ Stopped ◀──────────────────────────┘
//
// A runner that takes over a VM of one that died goes from Initializing to
// whatever the VM is in. Booting may lead to Booted at once, and a reset leads from both
// Running and Booted back to Booting.
// Nothing follows Stopped.
type State string

// The states.
const (
	// StateInitializing: the configuration is read, the plan made.
	StateInitializing State = "Initializing"
	// StateStarting: files, taps and processes are made.
	StateStarting State = "Starting"
	// StateBooting: the guest is running, and its agent is expected to answer.
	StateBooting State = "Booting"
	// StateRunning: the guest is running, and no agent answers: whether it has booted is not
	// known.
	StateRunning State = "Running"
	// StateBooted: the guest is running, and its agent has answered.
	StateBooted State = "Booted"
	// StateTerminating: the VM is being stopped.
	StateTerminating State = "Terminating"
	// StateStopped: the VM has ended.
	StateStopped State = "Stopped"
)

// Active reports whether the guest has been started and is not being stopped.
func (s State) Active() bool { return s == StateBooting || s == StateRunning || s == StateBooted }

// Known reports whether s is one of the states.
func (s State) Known() bool { return s.order() >= 0 }

// order numbers the states in the direction they follow each other.
func (s State) order() int {
	switch s {
	case StateInitializing:
		return 0
	case StateStarting:
		return 1
	case StateBooting:
		return 2
	case StateRunning:
		return 3
	case StateBooted:
		return 4
	case StateTerminating:
		return 5
	case StateStopped:
		return 6
	}
	return -1
}

// DefaultReason returns the reason of a state that was entered without one.
func (s State) DefaultReason() Reason {
	switch s {
	case StateBooting:
		return ReasonVMStarted
	case StateRunning:
		return ReasonNoGuestAgent
	case StateBooted:
		return ReasonVMBooted
	case StateTerminating:
		return ReasonVMTerminating
	case StateStopped:
		return ReasonVMStopped
	}
	return ReasonRunnerStarted
}

// CanEnter reports whether a VM in state s may enter next, which may be s itself.
func (s State) CanEnter(next State) bool {
	switch {
	case !next.Known():
		return false
	case s == "":
		return true
	case next == StateBooting && s.Active():
		return true
	}
	return next.order() >= s.order()
}
