package inventory

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// StartOrEnd is like Start, but ends the VM again if ctx ends before the guest is running. In that case it calls
// interrupted; the context from it bounds the wait for the end. It doesn't end a VM that had no runner.
func (inv *Inventory) StartOrEnd(ctx context.Context, name string, interrupted func() context.Context) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	if vm.State == StateNoRunner {
		return inv.startVM(ctx, vm, nil)
	}
	return inv.startVM(ctx, vm, interrupted)
}

// giveUp ends the runner of a VM that is being started. It returns when the runner has ended, or when ctx is
// done.
func (vm *VM) giveUp(ctx context.Context, runner *exec.Cmd, ended <-chan struct{}) error {
	_ = runner.Process.Signal(syscall.SIGTERM) // it may have ended
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%s is still ending: %w", vm.Name, context.Cause(ctx))
		case <-time.After(lookInterval):
		}
		// Don't wait for a guest that has begun to run in the meantime.
		if client, err := vm.Dial(ctx); err == nil {
			s, err := client.Status(ctx)
			if err == nil && s.Runner.PID == runner.Process.Pid {
				_, _ = stopByRunner(ctx, client, true, false) // the runner may not accept that yet
			}
		}
	}
}

// interruptedStart ends a VM after an interrupted start, and returns the error for StartOrEnd.
func (vm *VM) interruptedStart(ctx context.Context, end func(context.Context) error,
	interrupted func() context.Context,
) error {
	if err := end(interrupted()); err != nil {
		return err
	}
	return fmt.Errorf("start %s: the VM was ended again: %w", vm.Name, context.Cause(ctx))
}
