package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/internal/printable"
	"vmop/vmstatus"
)

// A Condition is the answer to one question about a VM, in the form of Kubernetes' conditions (metav1.Condition).
type Condition struct {
	Type   vmstatus.ConditionType   `json:"type"`
	Status vmstatus.ConditionStatus `json:"status"`
	// ObservedGeneration is the configuration that the answer is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is when Status changed.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason is one word.
	Reason vmstatus.Reason `json:"reason"`
	// Message is for people.
	Message string `json:"message"`
}

// deriveConditions returns the conditions that follow from the rest of a status, without transition times.
func deriveConditions(s Status) []Condition {
	all := []Condition{
		runningCondition(s), bootedCondition(s), readyCondition(s), vmopAgent(s), userLoggedIn(s), consoleConnected(s),
		configApplied(s),
		restartRequired(s), tpmLost(s), confinedCondition(s),
	}
	for i := range all {
		all[i].ObservedGeneration = s.Configuration.Applied
		if all[i].Type == vmstatus.ConditionConfigApplied {
			all[i].ObservedGeneration = s.Configuration.Generation
		}
	}
	return all
}

// newCondition creates a condition.
func newCondition(t vmstatus.ConditionType, is bool, reason vmstatus.Reason, message string) Condition {
	c := Condition{Type: t, Status: vmstatus.False, Reason: reason, Message: message}
	if is {
		c.Status = vmstatus.True
	}
	return c
}

// runningCondition also reports why the guest is slower than it could be, and which displays lack a password.
func runningCondition(s Status) Condition {
	c := newCondition(vmstatus.ConditionRunning, s.Started != nil && s.State != vmstatus.StateStopped, s.Reason,
		s.Message)
	if c.Status != vmstatus.True {
		return c
	}
	add := func(text string) {
		if c.Message != "" {
			c.Message += "; "
		}
		c.Message += text
	}
	if s.QEMU.Emulated != "" {
		add("without KVM the guest is slow; vm.accelerator: auto is tcg here, because " + s.QEMU.Emulated)
	}
	if s.QEMU.Unprotected != "" {
		add(s.QEMU.Unprotected)
	}
	return c
}

func bootedCondition(s Status) Condition {
	return newCondition(vmstatus.ConditionBooted, s.State == vmstatus.StateBooted, s.Reason, s.Message)
}

// readyCondition depends on QEMU's run state. It reports QEMU's other states (prelaunch, inmigrate, shutdown,
// watchdog, …) by name.
func readyCondition(s Status) Condition {
	if !s.State.Active() {
		return newCondition(vmstatus.ConditionReady, false, s.Reason, s.Message)
	}
	if s.QEMU.Unresponsive {
		return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonUnresponsive, "QEMU does not answer")
	}
	switch s.QEMU.RunState {
	case "running", "":
		if panicked := faultMessage(s, vmstatus.ReasonGuestPanicked, ""); panicked != "" {
			return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonGuestPanicked, panicked)
		}
		return newCondition(vmstatus.ConditionReady, true, s.Reason, s.Message)
	case "paused":
		return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonPaused, "the VM is paused")
	case "io-error":
		return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonIOError,
			faultMessage(s, vmstatus.ReasonIOError, "a disk has failed; the VM waits"))
	case "guest-panicked":
		return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonGuestPanicked,
			faultMessage(s, vmstatus.ReasonGuestPanicked, "the guest has panicked"))
	}
	return newCondition(vmstatus.ConditionReady, false, vmstatus.ReasonMachineHeld, "QEMU's machine is in state "+
		s.QEMU.RunState)
}

// faultMessage returns the message of the problem with this reason, or otherwise if there is no such problem.
func faultMessage(s Status, reason vmstatus.Reason, otherwise string) string {
	for _, p := range s.Problems {
		if p.Reason == reason {
			return p.Message
		}
	}
	return otherwise
}

func vmopAgent(s Status) Condition {
	switch {
	case !s.State.Active() && s.State != vmstatus.StateTerminating:
		return newCondition(vmstatus.ConditionVmopAgent, false, s.Reason, "")
	case s.VmopAgent:
		return newCondition(vmstatus.ConditionVmopAgent, true, vmstatus.ReasonVmopAgentStarted, "")
	}
	return newCondition(vmstatus.ConditionVmopAgent, false, vmstatus.ReasonVmopAgentDisconnected, "")
}

func userLoggedIn(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return newCondition(vmstatus.ConditionUserLoggedIn, false, s.Reason, "")
	case s.WantedUser == "":
		return newCondition(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonNotRequested, "")
	case vmopAgent(s).Status == vmstatus.False: // no agent can report
		return newCondition(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonVmopAgentDisconnected, "")
	case s.LoginFailure != "":
		return newCondition(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonLoginFailed, s.LoginFailure)
	case s.LoggedInUser != s.WantedUser:
		return newCondition(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonProcessing,
			"waiting for "+s.WantedUser)
	}
	return newCondition(vmstatus.ConditionUserLoggedIn, true, vmstatus.ReasonLoggedIn, s.LoggedInUser)
}

func consoleConnected(s Status) Condition {
	if s.State == vmstatus.StateStopped {
		return newCondition(vmstatus.ConditionConsoleConnected, false, s.Reason, "")
	}
	reason, screen := vmstatus.ReasonDisconnected, false
	for _, c := range s.Consoles {
		if c.Kind != Serial {
			reason, screen = vmstatus.ReasonConnected, true
		}
	}
	return newCondition(vmstatus.ConditionConsoleConnected, screen, reason, viewersText(s.Consoles))
}

// mostNamed limits the viewers that a condition names.
const mostNamed = 8

// viewersText names the users of screen and console: "vnc alice; watching vnc bob; serial carol". The viewer that
// types at the screen is first; programs rely on that. Names never contain the separator.
func viewersText(consoles []Console) string {
	rank := func(c Console) int {
		switch {
		case c.Mode == ModeWatch:
			return 2
		case c.Kind == Serial:
			return 1
		}
		return 0
	}
	sorted := slices.SortedStableFunc(slices.Values(consoles), func(a, b Console) int { return rank(a) - rank(b) })
	var names []string
	for _, c := range sorted[:min(len(sorted), mostNamed)] {
		name := c.Kind + " " + strings.ReplaceAll(printable.Line(c.Name()), ";", ",")
		if c.Mode == ModeWatch {
			name = Watching + name
		}
		names = append(names, name)
	}
	if more := len(sorted) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, Separator)
}

// In the message of the condition ConsoleConnected, Separator separates the viewers, and Watching precedes a
// viewer that doesn't type.
const (
	Separator = "; "
	Watching  = "watching "
)

// resetCounter is the path of a request to reset the machine.
const resetCounter = "resetCounter"

func configApplied(s Status) Condition {
	switch c := s.Configuration; {
	case s.State == vmstatus.StateStopped:
		return newCondition(vmstatus.ConditionConfigApplied, false, s.Reason, "")
	case c.Error != "":
		return newCondition(vmstatus.ConditionConfigApplied, false, vmstatus.ReasonConfigInvalid, c.Error)
	case c.Applied < c.Generation || c.Generation == 0:
		return newCondition(vmstatus.ConditionConfigApplied, false, vmstatus.ReasonApplying, "")
	}
	because, first := vmstatus.ReasonNotPossible, -1
	for i, p := range s.Problems {
		switch {
		case p.Path == resetCounter: // an operation waits for it
			because, first = vmstatus.ReasonNotReset, i
		case p.Path != "" && first < 0:
			first = i
		}
	}
	if first >= 0 {
		p := s.Problems[first]
		return newCondition(vmstatus.ConditionConfigApplied, false, because, p.Path+": "+p.Message)
	}
	return newCondition(vmstatus.ConditionConfigApplied, true, vmstatus.ReasonApplied,
		strings.Join(s.Configuration.Warnings, "; "))
}

func restartRequired(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return newCondition(vmstatus.ConditionRestartRequired, false, s.Reason, "")
	case len(s.RestartAwaitingChanges) == 0:
		return newCondition(vmstatus.ConditionRestartRequired, false, vmstatus.ReasonNothingPending, "")
	}
	paths := make([]string, len(s.RestartAwaitingChanges))
	for i, c := range s.RestartAwaitingChanges {
		paths[i] = c.Path
	}
	return newCondition(vmstatus.ConditionRestartRequired, true, vmstatus.ReasonChangesPending,
		strings.Join(paths, ", "))
}

func tpmLost(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return newCondition(vmstatus.ConditionTPMLost, false, s.Reason, "")
	case s.TPM == TPMGone:
		return newCondition(vmstatus.ConditionTPMLost, true, vmstatus.ReasonHelperEnded,
			faultMessage(s, vmstatus.ReasonTPMLost, ""))
	case s.TPM == TPMWorks:
		return newCondition(vmstatus.ConditionTPMLost, false, vmstatus.ReasonTPMPresent, "")
	}
	return newCondition(vmstatus.ConditionTPMLost, false, vmstatus.ReasonNoTPM, "")
}

// confinedCondition lists missing restrictions even if the condition is true.
func confinedCondition(s Status) Condition {
	c, running := s.Confinement, s.Started != nil && s.State != vmstatus.StateStopped
	switch {
	case c == nil && running:
		return newCondition(vmstatus.ConditionConfined, false, vmstatus.ReasonNotRecorded,
			"QEMU was started by an earlier version, which didn't record whether the kernel confines it")
	case c == nil || !running:
		return newCondition(vmstatus.ConditionConfined, false, s.Reason, "")
	}
	lacks := c.Lacks
	if c.Loopback != "" {
		lacks = append([]string{"the guest reaches the host's loopback addresses: " + c.Loopback}, lacks...)
	}
	if len(c.Exempt) > 0 {
		lacks = append([]string{strings.Join(c.Exempt, ", ") + ": confines itself"}, lacks...)
	}
	message := strings.Join(lacks, "; ")
	switch {
	case c.Landlock == 0 && !c.OwnRoot:
		return newCondition(vmstatus.ConditionConfined, false, vmstatus.ReasonNotConfined, message)
	case len(c.Exempt) > 0 || !c.OwnRoot || c.Loopback != "":
		return newCondition(vmstatus.ConditionConfined, true, vmstatus.ReasonPartlyConfined, message)
	}
	return newCondition(vmstatus.ConditionConfined, true, vmstatus.ReasonConfined, message)
}

// mergeConditions gives conditions their transition times. If no condition has changed, it returns the slice before.
func mergeConditions(before, after []Condition, now time.Time) []Condition {
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
