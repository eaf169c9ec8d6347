package reconcile

import (
	"encoding/json"
	"fmt"

	"vmop/runner/config"
	"vmop/runner/qmp"
	"vmop/vmtypes/plan"
)

// Desired is what the configuration wants of a running machine.
type Desired struct {
	// CPUs is how many CPUs the guest shall see.
	CPUs int
	// RAM is how many bytes of memory the guest shall have.
	RAM int64
	// Password of the display; nil means that there is none.
	Password *Password
}

// Password protects a display.
type Password struct {
	// Text hides itself when printed.
	Text config.Password
	// Expiry in QEMU's grammar: now, never, +n or n (seconds). Empty means that
	// QEMU's default, never, holds.
	Expiry string
}

// Observed is what QEMU said about the machine.
type Observed struct {
	// CPUs is the answer to query-hotpluggable-cpus.
	CPUs []CPU
	// RAM is what the balloon leaves to the guest, in bytes.
	RAM int64
	// Password is what was set last; nil means nothing.
	Password *Password
}

// A CPU is a slot for a CPU; see HotpluggableCPU in QEMU's QMP reference.
type CPU struct {
	Type  string          `json:"type"`
	Props json.RawMessage `json:"props"`
	// Path is the plugged CPU's place in QEMU's object tree; empty means that
	// the slot is free.
	Path string `json:"qom-path"`
}

// equal says that nothing has to be set.
func (p *Password) equal(other *Password) bool {
	return other != nil && p.Text.Equal(other.Text) && p.Expiry == other.Expiry
}

// Next returns the commands that bring the machine nearer to what is wanted,
// in the order in which they have to be sent; none, if all is as wanted.
func Next(rules plan.Rules, want Desired, have Observed) ([]qmp.Command, error) {
	var commands []qmp.Command
	for _, r := range rules {
		var err error
		var more []qmp.Command
		switch r := r.(type) {
		case plan.CPUs:
			more, err = cpus(r, want.CPUs, have.CPUs)
		case plan.Balloon:
			more = balloon(r, want.RAM, have.RAM)
		case plan.Password:
			more = password(r, want.Password, have.Password)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r, err)
		}
		commands = append(commands, more...)
	}
	return commands, nil
}
