package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/web/fleet"
)

func newStart(f *flags) *cobra.Command {
	return f.newState("start", "Start a VM", v1.Running, "started",
		"Set spec.vm.state to Running with an operation. If the last start failed, the VM is\n"+
			"started again immediately.")
}

func newStop(f *flags) *cobra.Command {
	cmd := f.newState("stop", "Ask the guest to shut down, and keep the VM stopped", v1.Stopped, "stopped",
		"Set spec.vm.state to Stopped with an operation: the guest is asked to shut down, and the VM\n"+
			"is ended by force when its powerdownTimeout has passed. --force ends it immediately, as\n"+
			"pulling the plug does.")
	cmd.Example = "  kubectl vmop stop web --wait\n  kubectl vmop stop web --force"
	return cmd
}

func (f *flags) newState(verb, short string, state v1.State, done, long string) *cobra.Command {
	var form string
	var force bool
	var w waiting
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Long: long, GroupID: groupPower}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	until := "the guest is running"
	if state == v1.Stopped {
		until = "the VM has no pod"
		cli.ForceFlag(cmd, &force)
		cmd.Flags().Int("grace-period", 0, "ignored; virtctl needs it with --force")
		_ = cmd.Flags().MarkHidden("grace-period") // cannot fail: the flag exists
	}
	w.addFlags(cmd, until)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.carryOutAction(cmd, args, actionOf(state, force), form, done, w)
		}
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		name, _ := splitName(args)
		vm, err := c.setState(ctx, cmd, name, state, force, w.wait)
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, name, done)
	}
	return cmd
}

// setState creates an operation that starts or stops a VM, unless the VM is already set to that state.
func (c *cluster) setState(ctx context.Context, cmd *cobra.Command, name string, state v1.State, force, wait bool) (
	*v1.VirtualMachine, error,
) {
	vm, err := c.getVM(ctx, name)
	if err != nil {
		return nil, err
	}
	phase := vm.Status.Phase
	set := phase != v1.PhaseFailed
	if state == v1.Stopped {
		set = !force || phase == v1.PhaseStopped
	}
	switch {
	case set && vm.Spec.DesiredState() == state:
		if !wait {
			return vm, nil
		}
		return c.awaitVM(ctx, name, isSettled(vm.Generation, state))
	case state == v1.Running:
		return c.operateVM(ctx, cmd, vm, v1.VirtualMachineOperationSpec{Type: v1.OperationStart}, wait)
	}
	return c.operateVM(ctx, cmd, vm, v1.VirtualMachineOperationSpec{Type: v1.OperationStop, Force: force}, wait)
}

// isSettled is the goal of a VM in the state that its definition requests since a generation.
func isSettled(generation int64, state v1.State) goal {
	return func(vm *v1.VirtualMachine) (bool, error) {
		switch {
		case vm == nil:
			return false, errors.New("the VM has been deleted meanwhile")
		case vm.Status.ObservedGeneration < generation:
			return false, nil
		case vm.Spec.DesiredState() != state:
			return false, fmt.Errorf("VM %s has been set to %s meanwhile", vm.Name, vm.Spec.DesiredState())
		case state == v1.Stopped:
			return vm.Status.Phase == v1.PhaseStopped, nil
		case vm.Status.Phase == v1.PhaseFailed:
			return false, hinted{
				fmt.Errorf("VM %s has failed: %s: %s", vm.Name, vm.Status.Reason, vm.Status.Message),
				"kubectl vmop why " + vm.Name,
			}
		}
		return vm.Status.Phase == v1.PhaseRunning, nil
	}
}

func newRestart(f *flags) *cobra.Command {
	const until = "the guest is running in the new pod"
	cmd := f.newOperation("restart", v1.OperationRestart, fleet.Restart, "restarted", until)
	cmd.Short = "Shut the guest down and start it again, with all pending changes"
	cmd.Long = "Ask the guest to shut down, and start it again in a new pod with the current definition. To\n" +
		"list changes that need a restart, use kubectl vmop why. --force doesn't ask the guest."
	return cmd
}

func newEvict(f *flags) *cobra.Command {
	cmd := f.newOperation("evict", v1.OperationEvict, "", "moved", "the guest is running on another node")
	cmd.Short = "Move a running guest away from its node"
	cmd.Long = "Move the guest to another node while it is running, as migrate does."
	return cmd
}

func newMigrate(f *flags) *cobra.Command {
	cmd := f.newOperation("migrate", v1.OperationMigrate, "", "moved", "the guest is running in another pod")
	cmd.Short = "Move a running guest to another node"
	cmd.Long = "Move the guest to another node while it is running. If anything fails, it stays. With\n" +
		"--copy-disks, VirtualDisks that only one node at a time can use are copied to new volumes\n" +
		"there. If --node-selector matches the guest's current node, it may move to a new pod on that\n" +
		"node, created from the current definition.\n\n" +
		"--all --outdated moves all VMs of the namespace that need only a new pod, for example for a\n" +
		"new runner image, and shows what the other VMs need."
	cmd.Example = "  kubectl vmop migrate web --wait\n  kubectl vmop migrate web --copy-disks --wait\n" +
		"  kubectl vmop migrate --all --outdated --dry-run"
	f.bringUpToDate(cmd)
	return cmd
}

func newReset(f *flags) *cobra.Command {
	cmd := f.newOperation("reset", v1.OperationReset, fleet.Reset, "reset", "the machine has been reset")
	cmd.Short = "Press the reset button"
	cmd.Long = "Restart the machine immediately, without notice to the guest."
	return cmd
}

// newOperation returns a verb that creates an operation on every call.
func (f *flags) newOperation(verb string, kind v1.OperationType, a fleet.Action, done, until string) *cobra.Command {
	var form string
	var force bool
	var nodes map[string]string
	var copies bool
	var w waiting
	cmd := &cobra.Command{Use: verb + " NAME", GroupID: groupPower}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	switch kind {
	case v1.OperationRestart:
		cli.ForceFlag(cmd, &force)
	case v1.OperationMigrate:
		cmd.Flags().StringToStringVar(&nodes, "node-selector", nil, "move to a node with the labels `NAME=VALUE,...`")
		cmd.Flags().Lookup("node-selector").DefValue = "" // pflag would show an empty list
		cmd.Flags().BoolVar(&copies, "copy-disks", false, "copy VirtualDisks that only one node at a time can use")
	}
	w.addFlags(cmd, until)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil && a == "":
			return cli.UsageError{Err: fmt.Errorf("%s: the manager has no request for it: leave --manager out", verb)}
		case m != nil && force:
			return m.carryOutAction(cmd, args, fleet.ForceRestart, form, done, w)
		case m != nil:
			return m.carryOutAction(cmd, args, a, form, done, w)
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		spec := v1.VirtualMachineOperationSpec{Type: kind, Force: force}
		if len(nodes) > 0 || copies {
			spec.Migrate = &v1.MigrateOptions{NodeSelector: nodes, CopyDisks: copies}
		}
		if vm, err = c.operateVM(ctx, cmd, vm, spec, w.wait); err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, done)
	}
	return cmd
}
