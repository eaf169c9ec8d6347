package control

import (
	"context"
	"encoding/json"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Backend is the VM as the control interface needs it. Its methods may be
// called from any goroutine, at any time between Start and Close.
type Backend interface {
	// Act does what a user asks for. Stop and Kill begin to end the VM and
	// return, the others return when it is done. by says who asks. A Refusal
	// says that the VM can't do that now.
	Act(ctx context.Context, what Action, by string) error
	// Run runs a QMP command. It returns a Refusal when QEMU doesn't run, and a
	// *qmp.Error when QEMU refuses.
	Run(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	// Plan returns the plan the VM was started by, nil as long as there is none.
	// Nobody changes it.
	Plan() *plan.Plan
	// Dropped is how many QMP events were lost because too many came.
	Dropped() uint64
}

// An Action is what a user may ask of a VM.
type Action string

// The actions.
const (
	// Stop asks the guest to shut down, and ends it by force when its
	// powerdownTimeout is over. It may be said more than once.
	Stop Action = "stop"
	// Kill ends the VM without asking the guest, also while it is being asked.
	Kill Action = "kill"
	// Reset is the reset button.
	Reset Action = "reset"
	// Pause stops the guest's CPUs, Resume lets them go on.
	Pause  Action = "pause"
	Resume Action = "resume"
)

// A Refusal is an error that says why something can't be done now.
type Refusal string

func (r Refusal) Error() string { return string(r) }
