package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"vmop/runner/machine"
	"vmop/runner/status"
)

// freezeGuest freezes the guest's file systems, after it has recorded the freeze for the next runner.
func (d *Driver) freezeGuest(a machine.FreezeGuest) {
	if err := d.cfg.Save(a.Progress); err != nil {
		d.again = true
		d.state.GuestFrozen(0, false, fmt.Errorf("it cannot be recorded: %w", err), time.Now())
		return
	}
	d.cfg.Agents.Freeze(a.Timeout, func(count int, sent bool, err error) {
		d.state.GuestFrozen(count, sent, err, time.Now())
	})
}

// Freeze makes the guest agent freeze the guest's file systems, and thaw them after the limit, unless a client
// requests it before. If ctx is done before the agent answers, they are thawed.
func (d *Driver) Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error) {
	return d.awaitFreeze(ctx, func(to machine.Request, now time.Time) { d.state.Freeze(to, limit, now) })
}

// Thaw thaws the file systems. If ctx is done before they are thawed, the agent is asked again until it answers.
func (d *Driver) Thaw(ctx context.Context) (status.FreezeAnswer, error) {
	return d.awaitFreeze(ctx, d.onState((*machine.State).Thaw))
}

func (d *Driver) awaitFreeze(
	ctx context.Context, begin func(to machine.Request, now time.Time),
) (a status.FreezeAnswer, err error) {
	reply, err := d.awaitAnswer(ctx, begin)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the guest agent has not answered, and is asked to thaw the file systems until it has: %w",
				context.Cause(ctx))
		}
		return a, err
	}
	if err := json.Unmarshal(reply, &a); err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}
