package vmstatus

// State is the state of a VM in its life cycle.
//
//	Initializing ─▶ Starting ─▶ Booting ─▶ Running ─▶ Booted
//	      │             │          │          │          │
//	      │             ▼          ▼          ▼          │
//	      ├───────▶ Terminating ◀──┴──────────┴──────────┤
//	      ▼             ▼                                ▼
//	      └─────────▶ Stopped ◀──────────────────────────┘
//
// A runner that continues the VM of a runner that died goes from Initializing to the VM's current state. Booting
// can be followed by Booted directly, and a reset leads from Running and Booted back to Booting. Stopped is the
// last state.
type State string

// The states.
const (
	// StateInitializing means that the runner reads the configuration and computes the plan.
	StateInitializing State = "Initializing"
	// StateStarting means that files, taps and processes are created.
	StateStarting State = "Starting"
	// StateBooting means that the guest is running, and its agent is expected to answer.
	StateBooting State = "Booting"
	// StateRunning means that the guest is running, and no agent answers. So it is unknown whether the guest has
	// booted.
	StateRunning State = "Running"
	// StateBooted means that the guest is running, and its agent has answered.
	StateBooted State = "Booted"
	// StateTerminating means that the VM is being stopped.
	StateTerminating State = "Terminating"
	// StateStopped means that the VM has ended.
	StateStopped State = "Stopped"
)

// Active reports whether the guest has been started and is not being stopped.
func (s State) Active() bool { return s == StateBooting || s == StateRunning || s == StateBooted }

// Known reports whether s is one of the states.
func (s State) Known() bool { return s.orderOf() >= 0 }

// orderOf returns the position of the state in the life cycle, or -1.
func (s State) orderOf() int {
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

// DefaultReason returns the reason for a state without another reason.
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
	return next.orderOf() >= s.orderOf()
}
