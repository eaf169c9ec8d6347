package drive

import (
	"context"
	"time"

	"vmop/runner/machine"
	"vmop/runner/reconcile"
)

// Hold leaves the machine as it is, because its guest is being moved, for the reason that users get.
func (d *Driver) Hold(why string) { d.Do(func() { d.state.Hold(why) }) }

// Unhold ends that.
func (d *Driver) Unhold() { d.call(d.closed, func(now time.Time) { d.state.Unhold(now) }) }

// Continue lets the guest of a held machine run; then it isn't held any more. QEMU may refuse, with a *qmp.Error.
func (d *Driver) Continue(ctx context.Context) error {
	_, err := d.await(ctx, d.onState((*machine.State).Continue))
	return err
}

// Paused reports whether a user has paused the guest.
func (d *Driver) Paused() (paused bool) {
	d.Do(func() { paused = d.state.Progress().Paused })
	return paused
}

// Wanted are the disks that the configuration in force wants to be attached to the machine.
func (d *Driver) Wanted() (list []reconcile.Drive) {
	d.Do(func() { list = d.state.Wanted() })
	return list
}

// Happened gets something when QEMU may be further with a migration, by its events, of which some may be lost.
func (d *Driver) Happened() <-chan struct{} { return d.happened }
