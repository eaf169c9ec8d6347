package runner

import (
	"context"

	"vmop/qmp"
)

// A follower looks after one side of a running machine: what its guest says,
// who looks at its screen, what has gone wrong. The loop of live calls its
// methods, one at a time, so they must not wait for anything: what takes time
// goes on in goroutines, which end with the context and report by machine.tell.
type follower interface {
	// attached is called when QEMU answers: once the guest runs, and again
	// whenever the monitor was connected anew. What events would have told in
	// the meantime has to be asked for.
	attached(ctx context.Context)
	// observe is called for each event of QEMU.
	observe(ctx context.Context, e qmp.Event)
	// wanted is called with the configuration in force: in the beginning, and
	// when it has changed.
	wanted(ctx context.Context, vm *VM)
}

// followers returns those of a machine, in the order in which they are called.
func followers(m *machine) []follower {
	return []follower{newAgents(m), newDisplays(m), newMishaps(m)}
}
