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

// call has the Driver call a function between two steps, and returns when what
// follows from it has been done. It returns false, and the function is not called, when ctx or the Driver has
// ended before.
func (d *Driver) call(ctx context.Context, f func(now time.Time)) bool {
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

// Do has the Driver call a function, and returns when it has, or when the Driver
// has ended and the function is not called.
func (d *Driver) Do(f func()) { d.call(d.closed, func(time.Time) { f() }) }

// await asks the State for something, and waits for the answer.
func (d *Driver) await(ctx context.Context, begin func(to machine.Request, now time.Time)) (json.RawMessage, error) {
	answered := make(chan machine.Answer, 1)
	var to machine.Request
	asked := d.call(ctx, func(now time.Time) {
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

// Command says a command to QEMU and returns its reply: a *qmp.Error if QEMU refuses,
// machine.ErrExited if it has ended. While there is no connection the command
// waits for one; one that was said is not repeated.
func (d *Driver) Command(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	return d.await(ctx, func(to machine.Request, now time.Time) { d.state.Run(to, c, now) })
}

// Query runs a command and decodes what it returns.
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

// Pause stops the guest for a user.
func (d *Driver) Pause(ctx context.Context) error {
	_, err := d.await(ctx, d.onState((*machine.State).Pause))
	return err
}

// Resume lets the guest run again for a user.
func (d *Driver) Resume(ctx context.Context) error {
	_, err := d.await(ctx, d.onState((*machine.State).Resume))
	return err
}

// Reset presses the reset button. A machine.Refusal says why that cannot be now.
func (d *Driver) Reset(ctx context.Context) error {
	_, err := d.await(ctx, d.onState((*machine.State).Reset))
	return err
}

func (d *Driver) onState(begin func(*machine.State, machine.Request, time.Time)) func(machine.Request, time.Time) {
	return func(to machine.Request, now time.Time) { begin(d.state, to, now) }
}

// Stop begins to end the VM; with atOnce without asking the guest. An error means that
// ctx has ended before.
func (d *Driver) Stop(ctx context.Context, cause string, atOnce bool) error {
	var late error
	if !d.call(ctx, func(now time.Time) {
		if late = context.Cause(ctx); late == nil {
			d.state.Stop(cause, atOnce, d.cfg.SinceBoot(), now)
		}
	}) {
		return context.Cause(ctx) // nil: QEMU has ended
	}
	return late
}

// Settle waits until the paused machine is as wanted and QEMU's sockets are there.
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

// Save keeps the progress, so that another runner may carry the VM on.
func (d *Driver) Save(ctx context.Context) (err error) {
	if !d.call(ctx, func(time.Time) { err = d.cfg.Save(d.state.Progress()) }) {
		return fmt.Errorf("save the progress: %w", machine.ErrExited)
	}
	return err
}

// Release lets the guest run for the first time. From then on QEMU's events are
// given to onEvent, too, on the Driver's goroutine.
func (d *Driver) Release(ctx context.Context, b machine.Booting, onEvent func(qmp.Event)) error {
	_, err := d.await(ctx, func(to machine.Request, now time.Time) {
		d.onEvent = onEvent
		d.state.Release(to, b, now)
	})
	return err
}

// Adopt begins with a VM that an earlier runner has left running, as Release does.
func (d *Driver) Adopt(b machine.Booting, onEvent func(qmp.Event)) {
	d.call(d.closed, func(now time.Time) {
		d.onEvent = onEvent
		d.state.Adopt(b, now)
	})
}

// Configured hands over a configuration that was read.
func (d *Driver) Configured(r machine.Reading) { d.Do(func() { d.state.Configured(r) }) }

// AwaitRestart hands over which changes await a restart of the VM, or why that is
// not known.
func (d *Driver) AwaitRestart(list status.Pending, err error) {
	d.Do(func() { d.state.AwaitRestart(list, err) })
}

// Sized hands over the sizes that disks have on the host, in bytes, by their
// index in vm.drives. The map is not changed any more.
func (d *Driver) Sized(sizes map[int]int64) { d.Do(func() { d.state.Sized(sizes) }) }

// DisksDiffer hands over what of the disks on the host isn't as configured.
func (d *Driver) DisksDiffer(list []vmspec.Fault) { d.Do(func() { d.state.DisksDiffer(list) }) }

// Dropped returns how many events of QEMU were lost because too many came.
func (d *Driver) Dropped() (n uint64) {
	d.Do(func() {
		n = d.before
		if d.session != nil {
			n += d.session.Dropped()
		}
	})
	return n
}

// Done is closed when Run has returned.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Close ends Run, not the VM.
func (d *Driver) Close() error {
	d.close()
	return nil
}
