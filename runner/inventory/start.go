package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"vmop/runner/control"
	"vmop/runner/record"
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
	return inv.start(ctx, vm)
}

func (inv *Inventory) start(ctx context.Context, vm *VM) error {
	if vm.Running() && vm.State != StateNoRunner {
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
		return vm.startService(ctx)
	}
	return inv.startDetached(ctx, vm)
}

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
	return inv.stop(ctx, name, func(vm *VM, client *control.Client) error {
		return client.Act(ctx, actionOf(force))
	}, force, "--no-block")
}

// End is Stop, and returns when the VM and its runner have ended.
func (inv *Inventory) End(ctx context.Context, name string, force bool) error {
	return inv.stop(ctx, name, func(vm *VM, client *control.Client) error {
		_, err := client.End(ctx, actionOf(force))
		return err
	}, force)
}

func actionOf(force bool) control.Action {
	if force {
		return control.Kill
	}
	return control.Stop
}

// stop stops a VM by its runner, or by systemd where the runner is another user's.
func (inv *Inventory) stop(
	ctx context.Context, name string, byRunner func(*VM, *control.Client) error, force bool, arguments ...string,
) error {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case vm.State == StateNoRunner:
		return fmt.Errorf("stop %s: %s; start the VM again, then stop it", name, vm.Problem)
	case vm.State == StateActive && force:
		return fmt.Errorf("stop %s: only its user can end it by force", name)
	case vm.State == StateActive:
		_, err := vm.Place.systemctl(ctx, append([]string{"stop"}, append(arguments, "--", vm.Service.Unit)...)...)
		return err
	}
	client, err := vm.Dial(ctx)
	if err != nil {
		return err
	}
	return byRunner(vm, client)
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
	if _, _, err := inv.check(ctx, vm, text); err != nil {
		return err
	}
	if err := inv.End(ctx, name, force); err != nil && !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	if vm, err = inv.Find(ctx, name); err != nil {
		return err
	}
	return inv.start(ctx, vm)
}
