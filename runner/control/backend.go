package control

import (
	"context"
	"encoding/json"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Backend gives the control interface access to the VM. Its methods may be called concurrently, at any time
// between Start and Close.
type Backend interface {
	// Act carries out the request of the client by. Stop and Kill only begin to end the VM; the other actions
	// return when they are done. A Refusal reports that the VM can't do it now.
	Act(ctx context.Context, what Action, by string) error
	// Run runs a QMP command. It returns a Refusal if QEMU is not running, and a *qmp.Error if QEMU refuses the
	// command.
	Run(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	// Plan returns the plan of the VM's start, or nil before there is a plan. It must not be modified.
	Plan() *plan.Plan
	// Dropped returns the number of QMP events that were lost because too many arrived.
	Dropped() uint64
}

// An Action is an action of a VM that a client can request.
type Action string

// The actions.
const (
	// Stop asks the guest to shut down, and ends the VM by force when its powerdownTimeout has passed. It may be
	// requested more than once.
	Stop Action = "stop"
	// Kill ends the VM immediately, even while the guest is shutting down.
	Kill Action = "kill"
	// Reset is the reset button.
	Reset Action = "reset"
	// Pause stops the guest's CPUs, Resume lets them continue.
	Pause  Action = "pause"
	Resume Action = "resume"
	// Reclaim reports that the target of the released guest is permanently lost. The runner no longer asks the
	// target, and the VM ends.
	Reclaim Action = "reclaim"
)

// A Refusal is the reason why the VM can't carry out a request now.
type Refusal string

func (r Refusal) Error() string { return string(r) }
