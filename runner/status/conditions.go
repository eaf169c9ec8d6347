package status

import (
	"strings"
	"time"
)

// A Condition is one question about a VM with its answer, in the form that
// Kubernetes gives to conditions (metav1.Condition).
type Condition struct {
	Type   ConditionType   `json:"type"`
	Status ConditionStatus `json:"status"`
	// ObservedGeneration is the configuration that the answer is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is when Status changed.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason in one word.
	Reason Reason `json:"reason"`
	// Message for people.
	Message string `json:"message"`
}

// ConditionStatus is True, False or Unknown.
type ConditionStatus string

// The answers.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// ConditionType is a question.
type ConditionType string

// The questions.
const (
	// Running: the guest has begun to run, and QEMU has not ended. It is true
	// while the VM is being stopped, and while it is paused.
	Running ConditionType = "Running"
	// IsBooted: the guest's agent has answered since the last start or reset.
	IsBooted ConditionType = "Booted"
	// Ready: the guest runs, nobody has paused it, nothing holds it up, and
	// nobody is stopping it.
	Ready ConditionType = "Ready"
	// VmopAgentConnected: the log-in agent of the guest is connected.
	VmopAgentConnected ConditionType = "VmopAgentConnected"
	// UserLoggedIn: the user that shall be logged in is.
	UserLoggedIn ConditionType = "UserLoggedIn"
	// ConsoleConnected: somebody looks at the screen, by SPICE or VNC.
	ConsoleConnected ConditionType = "ConsoleConnected"
	// ConfigApplied: the newest configuration is in force, but for what awaits
	// a restart.
	ConfigApplied ConditionType = "ConfigApplied"
	// RestartRequired: changes of the configuration await a restart.
	RestartRequired ConditionType = "RestartRequired"
	// TPMLost: the process that emulates the TPM has ended. The guest runs on
	// without it, and cannot be reset.
	TPMLost ConditionType = "TPMLost"
)

// Reasons of conditions, besides those of the states.
const (
	VmopAgentStarted      Reason = "VmopAgentStarted"
	VmopAgentDisconnected Reason = "VmopAgentDisconnected"
	UserIn                Reason = "LoggedIn"
	NotRequested          Reason = "NotRequested"
	Processing            Reason = "Processing"
	LoginFailed           Reason = "LoginFailed"
	Connected             Reason = "Connected"
	Disconnected          Reason = "Disconnected"
	ConfigInForce         Reason = "Applied"
	Applying              Reason = "Applying"
	ConfigInvalid         Reason = "ConfigInvalid"
	NotPossible           Reason = "NotPossible"
	ChangesPending        Reason = "ChangesPending"
	NothingPending        Reason = "NothingPending"
	Paused                Reason = "Paused"
	IOError               Reason = "IOError"
	GuestPanicked         Reason = "GuestPanicked"
	MachineHeld           Reason = "MachineHeld"
	QEMUUnresponsive      Reason = "Unresponsive"
	NoTPM                 Reason = "NoTPM"
	TPMPresent            Reason = "TPMPresent"
	HelperEnded           Reason = "HelperEnded"
)

// Reasons of faults of the machine; IOError and GuestPanicked are others.
const (
	// HelperLost: a process beside QEMU has ended.
	HelperLost Reason = "HelperLost"
	// MachineFailed: KVM or QEMU could not go on with the guest.
	MachineFailed Reason = "MachineFailed"
	// WatchdogExpired: the guest didn't serve its watchdog.
	WatchdogExpired Reason = "WatchdogExpired"
	// MemoryFailure: memory of the host is broken.
	MemoryFailure Reason = "MemoryFailure"
	// ImageCorrupted: QEMU has found a disk's image file inconsistent.
	ImageCorrupted Reason = "ImageCorrupted"
)

// Derive returns the conditions that follow from the rest of a status, without
// transition times.
func Derive(s Status) []Condition {
	all := []Condition{
		running(s), booted(s), ready(s), vmopAgent(s), userLoggedIn(s), consoleConnected(s), configApplied(s), restartRequired(s), tpmLost(s),
	}
	for i := range all {
		all[i].ObservedGeneration = s.Configuration.Applied
		if all[i].Type == ConfigApplied {
			all[i].ObservedGeneration = s.Configuration.Generation
		}
	}
	return all
}

// answer makes a condition.
func answer(t ConditionType, is bool, reason Reason, message string) Condition {
	c := Condition{Type: t, Status: False, Reason: reason, Message: message}
	if is {
		c.Status = True
	}
	return c
}

// running says, too, that the guest is slower than it could be.
func running(s Status) Condition {
	c := answer(Running, s.Started != nil && s.State != Stopped, s.Reason, s.Message)
	if c.Status != True || s.QEMU.Emulated == "" {
		return c
	}
	if c.Message != "" {
		c.Message += "; "
	}
	c.Message += "without KVM the guest is slow; vm.accelerator: auto is tcg here, because " + s.QEMU.Emulated
	return c
}

func booted(s Status) Condition { return answer(IsBooted, s.State == Booted, s.Reason, s.Message) }

// ready asks QEMU's run state. QEMU's other words (prelaunch, inmigrate,
// shutdown, watchdog, …) are told as they are.
func ready(s Status) Condition {
	if !s.State.Active() {
		return answer(Ready, false, s.Reason, s.Message)
	}
	if s.QEMU.Unresponsive {
		return answer(Ready, false, QEMUUnresponsive, "QEMU does not answer")
	}
	switch s.QEMU.RunState {
	case "running", "":
		if panicked := fault(s, GuestPanicked, ""); panicked != "" {
			return answer(Ready, false, GuestPanicked, panicked)
		}
		return answer(Ready, true, s.Reason, s.Message)
	case "paused":
		return answer(Ready, false, Paused, "the VM is paused")
	case "io-error":
		return answer(Ready, false, IOError, fault(s, IOError, "a disk has failed; the VM waits"))
	case "guest-panicked":
		return answer(Ready, false, GuestPanicked, fault(s, GuestPanicked, "the guest has panicked"))
	}
	return answer(Ready, false, MachineHeld, "QEMU's machine is in state "+s.QEMU.RunState)
}

// fault returns the message of a fault, or another if that is not known.
func fault(s Status, reason Reason, otherwise string) string {
	for _, p := range s.Problems {
		if p.Reason == reason {
			return p.Message
		}
	}
	return otherwise
}

func vmopAgent(s Status) Condition {
	switch {
	case !s.State.Active() && s.State != Terminating:
		return answer(VmopAgentConnected, false, s.Reason, "")
	case s.VmopAgent:
		return answer(VmopAgentConnected, true, VmopAgentStarted, "")
	}
	return answer(VmopAgentConnected, false, VmopAgentDisconnected, "")
}

func userLoggedIn(s Status) Condition {
	switch {
	case s.State == Stopped:
		return answer(UserLoggedIn, false, s.Reason, "")
	case s.WantedUser == "":
		return answer(UserLoggedIn, false, NotRequested, "")
	case vmopAgent(s).Status == False: // nobody tells
		return answer(UserLoggedIn, false, VmopAgentDisconnected, "")
	case s.LoginFailure != "":
		return answer(UserLoggedIn, false, LoginFailed, s.LoginFailure)
	case s.LoggedInUser != s.WantedUser:
		return answer(UserLoggedIn, false, Processing, "waiting for "+s.WantedUser)
	}
	return answer(UserLoggedIn, true, UserIn, s.LoggedInUser)
}

func consoleConnected(s Status) Condition {
	if s.State == Stopped {
		return answer(ConsoleConnected, false, s.Reason, "")
	}
	for _, c := range s.Consoles {
		if c.Kind != Serial {
			return answer(ConsoleConnected, true, Connected, c.Kind+" "+c.Client)
		}
	}
	return answer(ConsoleConnected, false, Disconnected, "")
}

func configApplied(s Status) Condition {
	switch c := s.Configuration; {
	case s.State == Stopped:
		return answer(ConfigApplied, false, s.Reason, "")
	case c.Error != "":
		return answer(ConfigApplied, false, ConfigInvalid, c.Error)
	case c.Applied < c.Generation || c.Generation == 0:
		return answer(ConfigApplied, false, Applying, "")
	}
	for _, p := range s.Problems {
		if p.Path != "" {
			return answer(ConfigApplied, false, NotPossible, p.Path+": "+p.Message)
		}
	}
	return answer(ConfigApplied, true, ConfigInForce, "")
}

func restartRequired(s Status) Condition {
	switch {
	case s.State == Stopped:
		return answer(RestartRequired, false, s.Reason, "")
	case len(s.PendingChanges) == 0:
		return answer(RestartRequired, false, NothingPending, "")
	}
	paths := make([]string, len(s.PendingChanges))
	for i, c := range s.PendingChanges {
		paths[i] = c.Path
	}
	return answer(RestartRequired, true, ChangesPending, strings.Join(paths, ", "))
}

func tpmLost(s Status) Condition {
	switch {
	case s.State == Stopped:
		return answer(TPMLost, false, s.Reason, "")
	case s.TPM == TPMGone:
		return answer(TPMLost, true, HelperEnded, fault(s, Reason(TPMLost), ""))
	case s.TPM == TPMWorks:
		return answer(TPMLost, false, TPMPresent, "")
	}
	return answer(TPMLost, false, NoTPM, "")
}

// merge gives conditions their transition times. When nothing has changed, the
// slice of before is returned.
func merge(before, after []Condition, now time.Time) []Condition {
	changed := len(before) != len(after)
	for i := range after {
		c := &after[i]
		c.LastTransitionTime = now
		if i < len(before) && before[i].Type == c.Type && before[i].Status == c.Status {
			c.LastTransitionTime = before[i].LastTransitionTime
		}
		changed = changed || *c != before[i]
	}
	if !changed {
		return before
	}
	return after
}
