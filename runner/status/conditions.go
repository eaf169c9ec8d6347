package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/printable"
	"vmop/vmstatus"
)

// A Condition is one question about a VM with its answer, in the form that
// Kubernetes gives to conditions (metav1.Condition).
type Condition struct {
	Type   vmstatus.ConditionType   `json:"type"`
	Status vmstatus.ConditionStatus `json:"status"`
	// ObservedGeneration is the configuration that the answer is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is when Status changed.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason in one word.
	Reason vmstatus.Reason `json:"reason"`
	// Message for people.
	Message string `json:"message"`
}

// Derive returns the conditions that follow from the rest of a status, without
// transition times.
func Derive(s Status) []Condition {
	all := []Condition{
		running(s), booted(s), ready(s), vmopAgent(s), userLoggedIn(s), consoleConnected(s), configApplied(s),
		restartRequired(s), tpmLost(s), confined(s),
	}
	for i := range all {
		all[i].ObservedGeneration = s.Configuration.Applied
		if all[i].Type == vmstatus.ConditionConfigApplied {
			all[i].ObservedGeneration = s.Configuration.Generation
		}
	}
	return all
}

// answer makes a condition.
func answer(t vmstatus.ConditionType, is bool, reason vmstatus.Reason, message string) Condition {
	c := Condition{Type: t, Status: vmstatus.False, Reason: reason, Message: message}
	if is {
		c.Status = vmstatus.True
	}
	return c
}

// running says, too, that the guest is slower than it could be, and who sees its screen.
func running(s Status) Condition {
	c := answer(vmstatus.ConditionRunning, s.Started != nil && s.State != vmstatus.StateStopped, s.Reason, s.Message)
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

func booted(s Status) Condition {
	return answer(vmstatus.ConditionBooted, s.State == vmstatus.StateBooted, s.Reason, s.Message)
}

// ready asks QEMU's run state. QEMU's other words (prelaunch, inmigrate,
// shutdown, watchdog, …) are reported as they are.
func ready(s Status) Condition {
	if !s.State.Active() {
		return answer(vmstatus.ConditionReady, false, s.Reason, s.Message)
	}
	if s.QEMU.Unresponsive {
		return answer(vmstatus.ConditionReady, false, vmstatus.ReasonUnresponsive, "QEMU does not answer")
	}
	switch s.QEMU.RunState {
	case "running", "":
		if panicked := fault(s, vmstatus.ReasonGuestPanicked, ""); panicked != "" {
			return answer(vmstatus.ConditionReady, false, vmstatus.ReasonGuestPanicked, panicked)
		}
		return answer(vmstatus.ConditionReady, true, s.Reason, s.Message)
	case "paused":
		return answer(vmstatus.ConditionReady, false, vmstatus.ReasonPaused, "the VM is paused")
	case "io-error":
		return answer(vmstatus.ConditionReady, false, vmstatus.ReasonIOError,
			fault(s, vmstatus.ReasonIOError, "a disk has failed; the VM waits"))
	case "guest-panicked":
		return answer(vmstatus.ConditionReady, false, vmstatus.ReasonGuestPanicked,
			fault(s, vmstatus.ReasonGuestPanicked, "the guest has panicked"))
	}
	return answer(vmstatus.ConditionReady, false, vmstatus.ReasonMachineHeld, "QEMU's machine is in state "+
		s.QEMU.RunState)
}

// fault returns the message of a fault, or another if that is not known.
func fault(s Status, reason vmstatus.Reason, otherwise string) string {
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
		return answer(vmstatus.ConditionVmopAgent, false, s.Reason, "")
	case s.VmopAgent:
		return answer(vmstatus.ConditionVmopAgent, true, vmstatus.ReasonVmopAgentStarted, "")
	}
	return answer(vmstatus.ConditionVmopAgent, false, vmstatus.ReasonVmopAgentDisconnected, "")
}

func userLoggedIn(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return answer(vmstatus.ConditionUserLoggedIn, false, s.Reason, "")
	case s.WantedUser == "":
		return answer(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonNotRequested, "")
	case vmopAgent(s).Status == vmstatus.False: // there is no agent to report
		return answer(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonVmopAgentDisconnected, "")
	case s.LoginFailure != "":
		return answer(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonLoginFailed, s.LoginFailure)
	case s.LoggedInUser != s.WantedUser:
		return answer(vmstatus.ConditionUserLoggedIn, false, vmstatus.ReasonProcessing, "waiting for "+s.WantedUser)
	}
	return answer(vmstatus.ConditionUserLoggedIn, true, vmstatus.ReasonLoggedIn, s.LoggedInUser)
}

func consoleConnected(s Status) Condition {
	if s.State == vmstatus.StateStopped {
		return answer(vmstatus.ConditionConsoleConnected, false, s.Reason, "")
	}
	reason, screen := vmstatus.ReasonDisconnected, false
	for _, c := range s.Consoles {
		if c.Kind != Serial {
			reason, screen = vmstatus.ReasonConnected, true
		}
	}
	return answer(vmstatus.ConditionConsoleConnected, screen, reason, viewers(s.Consoles))
}

// mostNamed is how many viewers a condition names.
const mostNamed = 8

// viewers names who looks at screen and console: "vnc alice; watching vnc bob; serial carol". Of a
// screen's viewers the one that types is first, which programs rely on. No name has what separates them.
func viewers(consoles []Console) string {
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

// In the message of the condition ConsoleConnected Separator is between viewers, and Watching begins one
// that doesn't type.
const (
	Separator = "; "
	Watching  = "watching "
)

// resetCounter is the path of a wish to reset the machine.
const resetCounter = "resetCounter"

func configApplied(s Status) Condition {
	switch c := s.Configuration; {
	case s.State == vmstatus.StateStopped:
		return answer(vmstatus.ConditionConfigApplied, false, s.Reason, "")
	case c.Error != "":
		return answer(vmstatus.ConditionConfigApplied, false, vmstatus.ReasonConfigInvalid, c.Error)
	case c.Applied < c.Generation || c.Generation == 0:
		return answer(vmstatus.ConditionConfigApplied, false, vmstatus.ReasonApplying, "")
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
		return answer(vmstatus.ConditionConfigApplied, false, because, p.Path+": "+p.Message)
	}
	return answer(vmstatus.ConditionConfigApplied, true, vmstatus.ReasonApplied, "")
}

func restartRequired(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return answer(vmstatus.ConditionRestartRequired, false, s.Reason, "")
	case len(s.RestartAwaitingChanges) == 0:
		return answer(vmstatus.ConditionRestartRequired, false, vmstatus.ReasonNothingPending, "")
	}
	paths := make([]string, len(s.RestartAwaitingChanges))
	for i, c := range s.RestartAwaitingChanges {
		paths[i] = c.Path
	}
	return answer(vmstatus.ConditionRestartRequired, true, vmstatus.ReasonChangesPending, strings.Join(paths, ", "))
}

func tpmLost(s Status) Condition {
	switch {
	case s.State == vmstatus.StateStopped:
		return answer(vmstatus.ConditionTPMLost, false, s.Reason, "")
	case s.TPM == TPMGone:
		return answer(vmstatus.ConditionTPMLost, true, vmstatus.ReasonHelperEnded, fault(s, vmstatus.ReasonTPMLost, ""))
	case s.TPM == TPMWorks:
		return answer(vmstatus.ConditionTPMLost, false, vmstatus.ReasonTPMPresent, "")
	}
	return answer(vmstatus.ConditionTPMLost, false, vmstatus.ReasonNoTPM, "")
}

// confined reports what does not hold, even if the condition is true.
func confined(s Status) Condition {
	c, running := s.Confinement, s.Started != nil && s.State != vmstatus.StateStopped
	switch {
	case c == nil && running:
		return answer(vmstatus.ConditionConfined, false, vmstatus.ReasonNotRecorded,
			"QEMU was started by an earlier version, which didn't record whether the kernel confines it")
	case c == nil || !running:
		return answer(vmstatus.ConditionConfined, false, s.Reason, "")
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
		return answer(vmstatus.ConditionConfined, false, vmstatus.ReasonNotConfined, message)
	case len(c.Exempt) > 0 || !c.OwnRoot || c.Loopback != "":
		return answer(vmstatus.ConditionConfined, true, vmstatus.ReasonPartlyConfined, message)
	}
	return answer(vmstatus.ConditionConfined, true, vmstatus.ReasonConfined, message)
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
