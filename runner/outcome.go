package runner

import (
	"vmop/runner/machine"
	"vmop/runner/status"
)

// An Outcome describes how a VM ended.
type Outcome struct {
	machine.Outcome

	noted string // the file with the end, for the next runner in this pod; may be empty
}

// endedStatus returns the outcome in the form that the status uses.
func (o Outcome) endedStatus() status.Ended {
	return status.Ended{Cause: o.Cause, Reason: o.Reason, ExitCode: o.ExitCode(), Message: o.String()}
}
