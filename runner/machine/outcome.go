package machine

import (
	"fmt"

	"vmop/internal/childprocess"
	"vmop/vmstatus"
)

// An Outcome describes how a machine ended.
type Outcome struct {
	// Cause is what ended the machine.
	Cause vmstatus.Cause
	// Reason is QEMU's ShutdownCause ("guest-shutdown"), or empty.
	Reason string
	// Exit is how QEMU's process ended.
	Exit childprocess.Exit
	// Output is the end of QEMU's standard error; empty if QEMU exited normally.
	Output string
	// Note adds details; may be empty.
	Note string
}

// outcomeOfEnd derives how the machine ended from the last SHUTDOWN event, the end of the process, and the stop
// requests. If the process's exit status is unknown, QEMU must have announced its end. late means that a stop was
// requested when QEMU was already ending. When a node shuts down, it sends a signal to all processes of a
// container, and any of them may notice it first.
func outcomeOfEnd(last *Shutdown, exit childprocess.Exit, asked, late, forced bool) Outcome {
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
		o.Cause = vmstatus.CauseKilled // something else made QEMU end
	}
	return o
}

// signalBase is added to a signal's number to form an exit code, as in shells.
const signalBase = 128

// ExitCode returns the runner's exit code: 0 if the guest or the user ended the machine, and QEMU's own code if
// it ended by itself.
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

// String describes the outcome for users.
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
