package machine

import (
	"fmt"

	"vmop/process"
	"vmop/vmstatus"
)

// An Outcome is how a machine ended.
type Outcome struct {
	// Cause says what ended it.
	Cause vmstatus.Cause
	// Reason is QEMU's ShutdownCause ("guest-shutdown"), or empty.
	Reason string
	// Exit is how the process of QEMU ended.
	Exit process.Exit
	// Output is the last that QEMU has written to standard error; empty if it ended
	// well.
	Output string
	// Note says more of how it ended; it may be empty.
	Note string
}

// outcome derives how the machine ended from the last SHUTDOWN event, the end of
// the process and whether a stop was requested. Where the exit status of the
// process is unknown, QEMU has to have announced its end. late: a stop was
// requested, but when QEMU was ending already. A node that shuts down sends a
// signal to all processes of a container, and one of them is the first to notice.
func outcome(last *Shutdown, exit process.Exit, asked, late, forced bool) Outcome {
	o := Outcome{Exit: exit}
	if last != nil {
		o.Reason = last.Reason
	}
	switch {
	case forced:
		o.Cause = vmstatus.CauseForced
	case exit.Signal != 0:
		o.Cause = vmstatus.CauseKilled
	case exit.Code > 0:
		o.Cause = vmstatus.CauseCrashed
	case exit.Unknown() && last == nil:
		o.Cause = vmstatus.CauseKilled
	case asked, late && o.Reason == "host-signal":
		o.Cause = vmstatus.CauseAsked
	case o.Reason == "guest-panic":
		o.Cause = vmstatus.CausePanic
	case o.Reason == "guest-reset":
		o.Cause = vmstatus.CauseReset
	case last != nil && last.Guest:
		o.Cause = vmstatus.CauseGuest
	default:
		o.Cause = vmstatus.CauseKilled // something else told QEMU to end
	}
	return o
}

// signalBase is added to a signal's number for an exit code, as shells do.
const signalBase = 128

// ExitCode is what the runner exits with: 0 if the guest or the user ended the
// machine, QEMU's own code if it ended by itself.
//
// See docs/decisions/0016-forced-stop.md.
func (o Outcome) ExitCode() int {
	switch {
	case o.Exit.Signal != 0:
		return signalBase + int(o.Exit.Signal)
	case o.Exit.Code > 0:
		return o.Exit.Code
	case o.Cause == vmstatus.CauseKilled, o.Cause == vmstatus.CausePanic, o.Cause == vmstatus.CauseTPM:
		return 1
	}
	return 0
}

// String describes the outcome for people.
func (o Outcome) String() string {
	s := string(o.Cause)
	if o.Reason != "" && o.Reason != string(o.Cause) {
		s += " (" + o.Reason + ")"
	}
	if o.Exit.Code != 0 || o.Exit.Signal != 0 {
		s += fmt.Sprintf(", QEMU: %s", o.Exit)
	}
	if o.Note != "" {
		s += "; " + o.Note
	}
	return s
}
