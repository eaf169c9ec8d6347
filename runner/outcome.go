package runner

import (
	"fmt"

	"vmop/runner/process"
)

// An Outcome is how a machine ended.
type Outcome struct {
	// Cause in one word.
	Cause Cause
	// Reason is QEMU's ShutdownCause ("guest-shutdown"), or empty.
	Reason string
	// Exit is how the process of QEMU ended.
	Exit process.Exit
	// Output is the last that QEMU has written to standard error; empty if it ended
	// well.
	Output string

	noted string // the file that tells the next runner in this pod; may be empty
}

// Cause says who ended the machine.
type Cause string

// The causes. Asked covers everything that the runner did because it was told
// to stop, Forced that the guest had to be left no choice. TPM is a guest's reset
// that had to end the machine because its TPM was lost; it counts as a failure, so
// that whoever keeps the VM running starts it anew.
const (
	CauseGuest   Cause = "guest shutdown"
	CauseReset   Cause = "guest reset"
	CausePanic   Cause = "guest panic"
	CauseTPM     Cause = "guest reset without its TPM"
	CauseAsked   Cause = "asked"
	CauseForced  Cause = "forced"
	CauseCrashed Cause = "crashed"
	CauseKilled  Cause = "killed"
)

// shutdown is the data of QEMU's SHUTDOWN event; see ShutdownCause in QEMU's
// QMP reference.
type shutdown struct {
	Guest  bool   `json:"guest"`
	Reason string `json:"reason"`
}

// outcome tells, from the last SHUTDOWN event, the end of the process and
// whether the runner wanted it, how the machine ended. Where nobody knows how the
// process ended, QEMU has to have announced its end. late: the runner has been told
// to stop, but when QEMU was ending already. A node that shuts down sends a signal to
// all processes of a container, and one of them is the first to notice.
func outcome(last *shutdown, exit process.Exit, asked, late, forced bool) Outcome {
	o := Outcome{Exit: exit}
	if last != nil {
		o.Reason = last.Reason
	}
	switch {
	case forced:
		o.Cause = CauseForced
	case exit.Signal != 0:
		o.Cause = CauseKilled
	case exit.Code > 0:
		o.Cause = CauseCrashed
	case exit.Unknown() && last == nil:
		o.Cause = CauseKilled
	case asked, late && o.Reason == "host-signal":
		o.Cause = CauseAsked
	case o.Reason == "guest-panic":
		o.Cause = CausePanic
	case o.Reason == "guest-reset":
		o.Cause = CauseReset
	case last != nil && last.Guest:
		o.Cause = CauseGuest
	default:
		o.Cause = CauseKilled // something else told QEMU to end
	}
	return o
}

// signalBase is added to a signal's number for an exit code, as shells do.
const signalBase = 128

// ExitCode is what the runner exits with: 0 if the guest or the user ended the
// machine, QEMU's own code if it ended by itself.
func (o Outcome) ExitCode() int {
	switch {
	case o.Exit.Signal != 0:
		return signalBase + int(o.Exit.Signal)
	case o.Exit.Code > 0:
		return o.Exit.Code
	case o.Cause == CauseKilled, o.Cause == CausePanic, o.Cause == CauseTPM:
		return 1
	}
	return 0
}

// String says how the machine ended, for people.
func (o Outcome) String() string {
	s := string(o.Cause)
	if o.Reason != "" && o.Reason != string(o.Cause) {
		s += " (" + o.Reason + ")"
	}
	if o.Exit.Code != 0 || o.Exit.Signal != 0 {
		s += fmt.Sprintf(", QEMU: %s", o.Exit)
	}
	return s
}
