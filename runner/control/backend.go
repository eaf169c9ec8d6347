package control

import (
	"context"
	"encoding/json"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Backend is what the control interface needs of the VM. Its methods may be called
// concurrently, at any time between Start and Close.
type Backend interface {
	// Act carries out the request of the client by. Stop and Kill begin to end the VM
	// and return, the others return when they are done. A Refusal reports that the VM
	// can't do that now.
	Act(ctx context.Context, what Action, by string) error
	// Run runs a QMP command. It returns a Refusal if QEMU is not running, and a
	// *qmp.Error if QEMU refuses the command.
	Run(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	// Plan returns the plan by which the VM was started, or nil before there is one. It
	// must not be modified.
	Plan() *plan.Plan
	// Dropped is the number of QMP events that were lost because too many arrived.
	Dropped() uint64
}

// An Action is what a client can request of a VM.
type Action string

// The actions.
const (
	// Stop asks the guest to shut down, and ends the VM by force when its
	// powerdownTimeout has passed. It may be requested more than once.
	Stop Action = "stop"
	// Kill ends the VM immediately, also while the guest is shutting down.
	Kill Action = "kill"
	// Reset is the reset button.
	Reset Action = "reset"
	// Pause stops the guest's CPUs, Resume lets them continue.
	Pause  Action = "pause"
	Resume Action = "resume"
	// Reclaim says that the target to which the guest was released is gone for good: it is not asked any more, and the
	// VM ends.
	Reclaim Action = "reclaim"
)

// A Refusal is the reason why the VM can't carry out a request now.
type Refusal string

func (r Refusal) Error() string { return string(r) }
