package drive

import (
	"context"
	"time"

	"vmop/runner/machine"
	"vmop/runner/machine/reconcile"
)

// Hold leaves the machine as it is because its guest is being moved. Users' requests are refused with why.
func (d *Driver) Hold(why string) { d.Do(func() { d.state.Hold(why) }) }

// Unhold ends Hold.
func (d *Driver) Unhold() { d.callBetweenSteps(d.closed, func(now time.Time) { d.state.Unhold(now) }) }

// Continue lets the guest of a held machine run, and ends Hold. QEMU may refuse with a *qmp.Error.
func (d *Driver) Continue(ctx context.Context) error {
	_, err := d.awaitAnswer(ctx, d.onState((*machine.State).Continue))
	return err
}

// Paused reports whether a user has paused the guest.
func (d *Driver) Paused() (paused bool) {
	d.Do(func() { paused = d.state.Progress().Paused })
	return paused
}

// Wanted returns the disks that the active configuration wants attached to the machine.
func (d *Driver) Wanted() (list []reconcile.Drive) {
	d.Do(func() { list = d.state.Wanted() })
	return list
}

// WantedCards returns the network cards that the active configuration wants plugged into the machine.
func (d *Driver) WantedCards() (list []reconcile.Card) {
	d.Do(func() { list = d.state.WantedCards() })
	return list
}

// Happened returns a channel that receives a value when QEMU may have made progress with a migration. It depends
// on QEMU's events, and some events may be lost.
func (d *Driver) Happened() <-chan struct{} { return d.happened }
