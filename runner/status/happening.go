package status

import (
	"slices"
	"time"

	"vmop/vmstatus"
)

// A Happening is an event in the life of a VM that its status shows.
type Happening struct {
	At time.Time `json:"at"`
	// Reason is the reason of the status, ReasonViewerCame or ReasonViewerGone.
	Reason vmstatus.Reason `json:"reason"`
	// Note is for people.
	Note string `json:"note"`
	// Warning marks an event that should not have happened.
	Warning bool `json:"warning,omitempty"`
}

// Reasons of happenings that are not reasons of a status. VM-Operator uses the same names.
const (
	ReasonViewerCame vmstatus.Reason = "ConsoleConnected"
	ReasonViewerGone vmstatus.Reason = "ConsoleDisconnected"
)

// Happenings returns what has happened between two statuses: a new reason, and viewers that came or left.
func Happenings(before, after Status, now time.Time) []Happening {
	var all []Happening
	if after.Reason != before.Reason {
		bad := after.Outcome != nil && after.Outcome.ExitCode != 0 || after.Reason == vmstatus.ReasonStartFailed
		all = append(all, Happening{now, after.Reason, stateSentence(after), bad})
	}
	if after.State == vmstatus.StateStopped {
		return all
	}
	for _, c := range before.Consoles {
		if !slices.Contains(after.Consoles, c) {
			all = append(all, Happening{now, ReasonViewerGone, viewerOf(c), false})
		}
	}
	for _, c := range after.Consoles {
		if !slices.Contains(before.Consoles, c) {
			all = append(all, Happening{now, ReasonViewerCame, viewerOf(c), false})
		}
	}
	return all
}

// viewerOf names a viewer: "vnc alice, watching".
func viewerOf(c Console) string {
	text := c.Kind + " " + c.Name()
	if c.Mode == ModeWatch {
		text += ", watching"
	}
	return text
}

// stateSentence explains why a VM is in its state, for readers who don't know the reasons.
func stateSentence(s Status) string {
	switch {
	case s.Message != "":
		return s.Message
	case s.Outcome != nil:
		return "the VM has ended: " + string(s.Outcome.Cause)
	}
	switch s.Reason {
	case vmstatus.ReasonRunnerStarted:
		return "the runner is preparing the machine"
	case vmstatus.ReasonVMStarted:
		return "the guest is running"
	case vmstatus.ReasonNoGuestAgent:
		return "the guest is running; its agent does not answer"
	case vmstatus.ReasonVMBooted:
		return "the guest has booted: its agent has answered"
	case vmstatus.ReasonVMReset:
		return "the guest was reset and is booting again"
	case vmstatus.ReasonRunnerRestarted:
		return "a new runner has taken over the VM, which kept running without one"
	case vmstatus.ReasonVMTerminating:
		return "a stop was requested"
	}
	return "the VM has ended"
}
