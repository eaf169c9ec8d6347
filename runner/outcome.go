package runner

import (
	"vmop/runner/machine"
	"vmop/runner/status"
)

// An Outcome is how a VM ended.
type Outcome struct {
	machine.Outcome

	noted string // the file that tells the next runner in this pod; may be empty
}

// ending is the outcome in the status.
func (o Outcome) ending() status.Ended {
	return status.Ended{Cause: o.Cause, Reason: o.Reason, ExitCode: o.ExitCode(), Message: o.String()}
}
