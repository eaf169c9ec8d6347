package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/status"
	"vmop/vmspec"
)

// callBetweenSteps makes the Driver call a function between two steps, and returns true when the resulting actions have
// been carried out. If ctx or the Driver ends before, it returns false and the function is not called.
func (d *Driver) callBetweenSteps(ctx context.Context, f func(now time.Time)) bool {
	called := make(chan struct{})
	select {
	case d.requests <- request{f, called}:
		<-called
		return true
	case <-d.done:
	case <-ctx.Done():
	}
	return false
}

// Do makes the Driver call a function, and returns after the call. If the Driver has ended, the function is not
// called.
func (d *Driver) Do(f func()) { d.callBetweenSteps(d.closed, func(time.Time) { f() }) }

// awaitAnswer sends a request to the State, and waits for the answer.
func (d *Driver) awaitAnswer(ctx context.Context, begin func(to machine.Request, now time.Time)) (json.RawMessage,
	error,
) {
	answered := make(chan machine.Answer, 1)
	var to machine.Request
	asked := d.callBetweenSteps(ctx, func(now time.Time) {
		d.last++
		to = d.last
		d.asking[to] = answered
		begin(to, now)
	})
	if !asked {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, machine.ErrExited
	}
	select {
	case a := <-answered:
		return a.Reply, a.Err
	case <-ctx.Done():
		d.Do(func() {
			delete(d.asking, to)
			d.state.Cancel(to, time.Now())
		})
		return nil, fmt.Errorf("QEMU has not answered: %w", context.Cause(ctx))
	case <-d.done:
	}
	select {
	case a := <-answered:
		return a.Reply, a.Err
	default:
		return nil, machine.ErrExited
	}
}

// Command sends a command to QEMU and returns its reply. The error is a *qmp.Error if QEMU refuses, or
// machine.ErrExited if QEMU has ended. Without a connection the command waits for one. A command that was sent is
// never repeated.
func (d *Driver) Command(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	return d.awaitAnswer(ctx, func(to machine.Request, now time.Time) { d.state.Run(to, c, now) })
}

// Query sends a command and decodes its return value.
func (d *Driver) Query(ctx context.Context, c qmp.Command, into any) error {
	reply, err := d.Command(ctx, c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Execute, err)
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("%s: reply of QEMU: %w", c.Execute, err)
	}
	return nil
}

// Pause pauses the guest for a user.
func (d *Driver) Pause(ctx context.Context) error {
	_, err := d.awaitAnswer(ctx, d.onState((*machine.State).Pause))
	return err
}

// Resume resumes the guest for a user.
func (d *Driver) Resume(ctx context.Context) error {
	_, err := d.awaitAnswer(ctx, d.onState((*machine.State).Resume))
	return err
}

// Reset presses the reset button. A machine.Refusal explains why a reset is impossible at the moment.
func (d *Driver) Reset(ctx context.Context) error {
	_, err := d.awaitAnswer(ctx, d.onState((*machine.State).Reset))
	return err
}

func (d *Driver) onState(begin func(*machine.State, machine.Request, time.Time)) func(machine.Request, time.Time) {
	return func(to machine.Request, now time.Time) { begin(d.state, to, now) }
}

// Stop starts to end the VM; with atOnce, without asking the guest. An error means that ctx was done before.
func (d *Driver) Stop(ctx context.Context, cause string, atOnce bool) error {
	var late error
	if !d.callBetweenSteps(ctx, func(now time.Time) {
		if late = context.Cause(ctx); late == nil {
			d.state.Stop(cause, atOnce, d.cfg.SinceBoot(), now)
		}
	}) {
		return context.Cause(ctx) // nil means that QEMU has ended
	}
	return late
}

// Settle waits until the paused machine has the wanted configuration and QEMU's sockets exist.
func (d *Driver) Settle(ctx context.Context) error {
	select {
	case err := <-d.settled:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.done:
		return machine.ErrExited
	}
}

// Save saves the progress, so that another runner can adopt the VM.
func (d *Driver) Save(ctx context.Context) (err error) {
	if !d.callBetweenSteps(ctx, func(time.Time) { err = d.cfg.Save(d.state.Progress()) }) {
		return fmt.Errorf("save the progress: %w", machine.ErrExited)
	}
	return err
}

// Release lets the guest run for the first time. From then on onEvent receives QEMU's events, on the Driver's
// goroutine.
func (d *Driver) Release(ctx context.Context, b machine.Booting, onEvent func(qmp.Event)) error {
	_, err := d.awaitAnswer(ctx, func(to machine.Request, now time.Time) {
		d.onEvent = onEvent
		d.state.Release(to, b, now)
	})
	return err
}

// Adopt starts with a VM that an earlier runner has left running. onEvent is as in Release.
func (d *Driver) Adopt(b machine.Booting, onEvent func(qmp.Event)) {
	d.callBetweenSteps(d.closed, func(now time.Time) {
		d.onEvent = onEvent
		d.state.Adopt(b, now)
	})
}

// Configured passes on a configuration that was read.
func (d *Driver) Configured(r machine.Reading) { d.Do(func() { d.state.Configured(r) }) }

// AwaitRestart passes on the changes that need a restart of the VM, or why they are unknown.
func (d *Driver) AwaitRestart(list status.Pending, err error) {
	d.Do(func() { d.state.AwaitRestart(list, err) })
}

// Sized passes on the sizes of disks on the host, in bytes, by their index in vm.drives. The caller must not
// change the map after the call.
func (d *Driver) Sized(sizes map[int]int64) { d.Do(func() { d.state.Sized(sizes) }) }

// DisksDiffer passes on how disks on the host differ from the configuration.
func (d *Driver) DisksDiffer(list []vmspec.Fault) { d.Do(func() { d.state.DisksDiffer(list) }) }

// Dropped returns the number of QEMU's events that were lost because too many arrived.
func (d *Driver) Dropped() (n uint64) {
	d.Do(func() {
		n = d.before
		if d.session != nil {
			n += d.session.Dropped()
		}
	})
	return n
}

// Done returns a channel that is closed when Run has returned.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Close ends Run, but not the VM.
func (d *Driver) Close() error {
	d.close()
	return nil
}
