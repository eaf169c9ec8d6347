package inventory

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// StartOrEnd is Start, except that a VM that isn't running when ctx ends is ended again. Then
// interrupted is called, whose context bounds the wait for the end. A VM that was running without
// a runner is not ended.
func (inv *Inventory) StartOrEnd(ctx context.Context, name string, interrupted func() context.Context) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	if vm.State == StateNoRunner {
		return inv.start(ctx, vm, nil)
	}
	return inv.start(ctx, vm, interrupted)
}

// giveUp ends the runner of a VM that is being started, and returns when it has ended, or when ctx is
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
		// If the guest has begun to run meanwhile, it isn't waited for.
		if client, err := vm.Dial(ctx); err == nil {
			s, err := client.Status(ctx)
			if err == nil && s.Runner.PID == runner.Process.Pid {
				_, _ = act(ctx, client, true, false) // it may not take that yet
			}
		}
	}
}

// interruptedStart is what StartOrEnd returns.
func (vm *VM) interruptedStart(ctx context.Context, end func(context.Context) error,
	interrupted func() context.Context,
) error {
	if err := end(interrupted()); err != nil {
		return err
	}
	return fmt.Errorf("start %s: the VM was ended again: %w", vm.Name, context.Cause(ctx))
}
