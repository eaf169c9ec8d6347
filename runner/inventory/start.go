package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"vmop/runner/adopt/record"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Start starts a VM and returns when its guest is running. It starts the VM's service if systemd has one,
// otherwise a separate process. If the VM's runner was killed, it starts another runner. The error is ErrRunning
// if the VM is running, an error of the configuration, or a *StartError. If ctx ends before the guest is running,
// the start continues.
func (inv *Inventory) Start(ctx context.Context, name string) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	return inv.startVM(ctx, vm, nil)
}

// startVM starts a VM. If ctx ends before its guest is running, the start continues, unless interrupted is given
// (StartOrEnd).
func (inv *Inventory) startVM(ctx context.Context, vm *VM, interrupted func() context.Context) error {
	switch {
	case vm.State == vmstatus.StateTerminating:
		return fmt.Errorf("start %s: %w", vm.Name, runningError(fmt.Sprintf("it is shutting down; wait for that by: "+
			"vmrunner stop %s --wait, or end it by: vmrunner stop %[1]s --force", vm.Name)))
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
		return vm.elsewhereError()
	}
	return nil
}

// elsewhereError returns the error for a VM without a Place; the data directory of such a VM isn't known.
func (vm *VM) elsewhereError() error {
	return fmt.Errorf("%s runs with a configuration outside the folders for VMs: %w", vm.Name, ErrUnknown)
}

// placedVM returns the VM with a name, and an error if it has no Place.
func (inv *Inventory) placedVM(ctx context.Context, name string) (*VM, error) {
	vm, err := inv.Find(ctx, name)
	if err == nil && vm.Place == nil {
		err = vm.elsewhereError()
	}
	return vm, err
}

// Stop asks the guest of a VM to shut down, and returns without waiting; End waits. With force it ends the VM
// immediately, and returns when the VM and its runner have ended, at most a minute later, so that the VM can be started
// or deleted. The error is control.ErrNotRunning if the VM isn't running.
func (inv *Inventory) Stop(ctx context.Context, name string, force bool) error {
	return inv.stopVM(ctx, name, force, false)
}

// End is like Stop, but returns when the VM and its runner have ended.
func (inv *Inventory) End(ctx context.Context, name string, force bool) error {
	return inv.stopVM(ctx, name, force, true)
}

// stopVM stops a VM through its runner. It uses systemd if the runner belongs to another user, and the VM's
// processes if the runner can't be reached.
func (inv *Inventory) stopVM(ctx context.Context, name string, force, wait bool) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case vm.State == StateNoRunner && !force:
		return fmt.Errorf("stop %s: %s", name, vm.Problem)
	case vm.State == StateActive && force:
		return fmt.Errorf("stop %s: only its user can end it by force", name)
	case vm.State == StateActive:
		arguments := []string{"stop"}
		if !wait {
			arguments = append(arguments, "--no-block")
		}
		_, err := vm.Place.runSystemctl(ctx, append(arguments, "--", vm.Service.Unit)...)
		return err
	}
	_, err = StopAt(ctx, vm.RuntimeDir, vm.DataDir, force, wait)
	return err
}

// StopAt stops the VM with these directories, like Stop and End. With wait or force it returns how the VM ended,
// unless its runner couldn't be reached.
func StopAt(ctx context.Context, runtimeDir, dataDir string, force, wait bool) (last status.Status, err error) {
	if dataDir == "" {
		dataDir = dataDirOf(runtimeDir)
	}
	client, err := Reach(ctx, runtimeDir, dataDir)
	if err == nil {
		last, err = stopByRunner(ctx, client, force, wait || force)
		if err == nil || !force || ctx.Err() != nil || errors.As(err, new(*control.AnswerError)) {
			return last, err
		}
	}
	absent := errors.Is(err, control.ErrNotRunning)
	if absent && !force || !absent && !force && !errors.As(err, new(*UnreachableError)) {
		return last, err
	}
	if fault := stopProcesses(ctx, runtimeDir, dataDir, force, wait); !errors.Is(fault, control.ErrNotRunning) {
		return status.Status{}, fault
	}
	return last, err
}

// stopByRunner makes a runner stop its VM. With force it has a time limit.
func stopByRunner(ctx context.Context, client *control.Client, force, wait bool) (last status.Status, err error) {
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

// Restart ends a running VM and starts it again, so that pending changes of the configuration take effect. It
// also starts a stopped VM. With an invalid configuration, it leaves the VM running.
func (inv *Inventory) Restart(ctx context.Context, name string, force bool) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	if err := inv.mayStart(vm); err != nil {
		return err
	}
	text, err := vm.readText()
	if err != nil {
		return err
	}
	if _, err := inv.checkText(ctx, vm, text); err != nil {
		return err
	}
	if err := inv.End(ctx, name, force); err != nil && !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	if vm, err = inv.Find(ctx, name); err != nil {
		return err
	}
	return inv.startVM(ctx, vm, nil)
}
