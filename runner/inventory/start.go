package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"vmop/runner/control"
	"vmop/runner/record"
	"vmop/runner/status"
)

// Start starts a VM and returns when its guest is running: by its service if systemd has
// one for it, else as a process of its own. A VM whose runner was killed gets another
// one. The error is ErrRunning if the VM runs, the configuration's faults, or a
// *StartError. When ctx ends before the guest is running, it continues to start.
func (inv *Inventory) Start(ctx context.Context, name string) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	return inv.start(ctx, vm, nil)
}

// start starts a VM. If ctx ends before its guest is running, it continues to start, unless interrupted
// is given (StartOrEnd).
func (inv *Inventory) start(ctx context.Context, vm *VM, interrupted func() context.Context) error {
	switch {
	case (vm.State == StateNoAnswer || vm.lost || vm.Running() && vm.State != StateNoRunner) && vm.Problem != "":
		return fmt.Errorf("start %s: %w", vm.Name, runningError(vm.Problem))
	case vm.Running() && vm.State != StateNoRunner:
		return fmt.Errorf("start %s: %w", vm.Name, ErrRunning)
	}
	if err := inv.mayStart(vm); err != nil {
		return err
	}
	if vm.State != StateNoRunner {
		if err := inv.sharesDisk(vm); err != nil {
			return err
		}
	}
	_ = record.ForgetStartFailure(vm.DataDir) // a runner of another user does it
	if vm.Service.Unit != "" {
		if inv.opts.Arguments != nil {
			return fmt.Errorf("start %s: its service does not take %s; put that into a drop-in: systemctl edit %s",
				vm.Name, strings.Join(inv.opts.Arguments, " "), vm.Service.Unit)
		}
		err := vm.startService(ctx)
		if err != nil && ctx.Err() != nil && interrupted != nil {
			return vm.interruptedStart(ctx, vm.stopService, interrupted)
		}
		return err
	}
	return inv.startDetached(ctx, vm, interrupted)
}

// runningError is ErrRunning for a VM with a Problem.
type runningError string

func (e runningError) Error() string {
	if strings.HasPrefix(string(e), ErrRunning.Error()) {
		return string(e)
	}
	return ErrRunning.Error() + ": " + string(e)
}

func (e runningError) Unwrap() error { return ErrRunning }

// mayStart returns why a VM can't be started.
func (inv *Inventory) mayStart(vm *VM) error {
	switch {
	case vm.Fault != nil:
		return vm.Fault
	case vm.Place == nil:
		return vm.elsewhere()
	}
	return nil
}

// elsewhere is the error for a VM without a Place, whose data directory isn't known.
func (vm *VM) elsewhere() error {
	return fmt.Errorf("%s runs by a configuration in none of the folders for VMs: %w", vm.Name, ErrUnknown)
}

// placed returns a VM that has a Place.
func (inv *Inventory) placed(ctx context.Context, name string) (*VM, error) {
	vm, err := inv.Find(ctx, name)
	if err == nil && vm.Place == nil {
		err = vm.elsewhere()
	}
	return vm, err
}

// Stop asks the guest of a VM to shut down, or with force ends the VM at once. It does not
// wait for the end; End does. The error is control.ErrNotRunning if the VM does not run.
func (inv *Inventory) Stop(ctx context.Context, name string, force bool) error {
	return inv.stop(ctx, name, force, false)
}

// End is Stop, and returns when the VM and its runner have ended.
func (inv *Inventory) End(ctx context.Context, name string, force bool) error {
	return inv.stop(ctx, name, force, true)
}

// stop stops a VM by its runner, by systemd where the runner is another user's, or by its processes
// where the runner can't be asked.
func (inv *Inventory) stop(ctx context.Context, name string, force, wait bool) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case vm.State == StateNoRunner && !force && vm.lost:
		return fmt.Errorf("stop %s: %s", name, vm.Problem)
	case vm.State == StateNoRunner && !force:
		return fmt.Errorf("stop %s: %s; start the VM again, then stop it", name, vm.Problem)
	case vm.State == StateActive && force:
		return fmt.Errorf("stop %s: only its user can end it by force", name)
	case vm.State == StateActive:
		arguments := []string{"stop"}
		if !wait {
			arguments = append(arguments, "--no-block")
		}
		_, err := vm.Place.systemctl(ctx, append(arguments, "--", vm.Service.Unit)...)
		return err
	}
	_, err = StopAt(ctx, vm.RuntimeDir, vm.DataDir, force, wait)
	return err
}

// StopAt stops the VM that has some directories, as Stop and End do. With wait it returns how
// the VM ended, unless its runner couldn't be asked.
func StopAt(ctx context.Context, runtimeDir, dataDir string, force, wait bool) (last status.Status, err error) {
	if dataDir == "" {
		dataDir = dataDirOf(runtimeDir)
	}
	client, err := Reach(ctx, runtimeDir, dataDir)
	if err == nil {
		last, err = act(ctx, client, force, wait)
		if err == nil || !force || ctx.Err() != nil || errors.As(err, new(*control.AnswerError)) {
			return last, err
		}
	}
	absent := errors.Is(err, control.ErrNotRunning)
	if absent && !force || !absent && !force && !errors.As(err, new(*UnreachableError)) {
		return last, err
	}
	if fault := StopProcesses(ctx, runtimeDir, dataDir, force, wait); !errors.Is(fault, control.ErrNotRunning) {
		return status.Status{}, fault
	}
	return last, err
}

// act has a runner stop its VM. One that does so by force has limits.
func act(ctx context.Context, client *control.Client, force, wait bool) (last status.Status, err error) {
	what, limit := control.Stop, control.AnswerTime
	if force {
		what, limit = control.Kill, forceTime
	}
	if wait && !force {
		return client.End(ctx, what)
	}
	if wait {
		limit = forcedTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the runner did not end the VM within %s", limit))
	defer cancel()
	if wait {
		return client.End(ctx, what)
	}
	return last, client.Act(ctx, what)
}

// Restart ends a VM, if it runs, and starts it again: changes of the configuration that
// await a restart take effect. A configuration with faults leaves it running.
func (inv *Inventory) Restart(ctx context.Context, name string, force bool) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	if err := inv.mayStart(vm); err != nil {
		return err
	}
	text, err := vm.text()
	if err != nil {
		return err
	}
	if _, err := inv.check(ctx, vm, text); err != nil {
		return err
	}
	if err := inv.End(ctx, name, force); err != nil && !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	if vm, err = inv.Find(ctx, name); err != nil {
		return err
	}
	return inv.start(ctx, vm, nil)
}
