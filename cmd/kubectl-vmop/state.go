package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/act"
	"vmop/manager/fleet"
	"vmop/runner/control"
)

func newStart(f *flags) *cobra.Command {
	return f.newState("start", "Start a VM", v1.Running, "started",
		"start sets spec.vm.state to Running. A VM whose starts have failed is tried again at once.")
}

func newStop(f *flags) *cobra.Command {
	cmd := f.newState("stop", "Ask the guest to shut down, and keep the VM stopped", v1.Stopped, "stopped",
		"stop sets spec.vm.state to Stopped: the guest is asked to shut down, and the VM is ended by force\n"+
			"when its powerdownTimeout has passed. --force ends it at once, as pulling the plug does.")
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
		cmd.Flags().BoolVar(&force, "force", false, "end the VM without asking the guest to shut down")
		cmd.Flags().Int("grace-period", 0, "as of virtctl; only with --force, and 0")
		_ = cmd.Flags().MarkHidden("grace-period") // it is there
	}
	w.add(cmd, until)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.act(cmd, args, actionOf(state, force), form, done, w)
		}
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		name, _ := split(args)
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		vm, err := c.set(ctx, name, state)
		if err == nil && force {
			err = c.kill(ctx, vm)
		}
		if err == nil && w.wait {
			vm, err = c.await(ctx, name, settled(vm.Generation, state))
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, name, done)
	}
	return cmd
}

// set sets whether a VM is to run.
func (c *cluster) set(ctx context.Context, name string, state v1.State) (*v1.VirtualMachine, error) {
	vm, err := c.vm(ctx, name)
	if err != nil {
		return nil, err
	}
	patch, err := act.State(vm, state)
	if err != nil {
		return nil, err
	}
	return c.patch(ctx, name, types.MergePatchType, patch)
}

// kill ends the machine of a VM that is set to Stopped, if there is one.
func (c *cluster) kill(ctx context.Context, vm *v1.VirtualMachine) error {
	err := c.runner(ctx, vm).Act(ctx, control.Kill)
	if apierrors.IsNotFound(cause(err)) || errors.Is(err, control.ErrNotRunning) || errors.Is(err, errNoPod) {
		return nil // it has ended by itself
	}
	return err
}

// settled is the goal that a VM is as it was set, which its definition has since a generation.
func settled(generation int64, state v1.State) goal {
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
	var form string
	var w waiting
	cmd := &cobra.Command{
		Use: "restart NAME", Short: "Shut the guest down and start it again, with all pending changes", GroupID: groupPower,
		Long: "restart deletes the pod of the VM: the guest is asked to shut down, and starts again in a new pod\n" +
			"with the present definition. What awaits that, status.restartAwaitingChanges lists (kubectl vmop why).",
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	w.add(cmd, "the guest is running in the new pod")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.act(cmd, args, fleet.Restart, form, "restarted", w)
		}
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		name, _ := split(args)
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		vm, err := c.restart(ctx, name, w.wait)
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, name, "restarted")
	}
	return cmd
}

// restart restarts a VM.
func (c *cluster) restart(ctx context.Context, name string, wait bool) (*v1.VirtualMachine, error) {
	vm, err := c.vm(ctx, name)
	if err != nil {
		return nil, err
	}
	if vm.Spec.DesiredState() != v1.Running {
		return nil, hinted{fmt.Errorf("VM %s is set to Stopped", name), "kubectl vmop start " + name}
	}
	if err := act.CanRestart(vm); err != nil {
		return nil, hinted{err, "kubectl vmop why " + name}
	}
	before, err := podOf(vm)
	if err != nil {
		return nil, err
	}
	err = c.core.Pods(c.namespace).Delete(ctx, before.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(before.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) || !wait {
		return vm, err
	}
	arrived := settled(vm.Generation, v1.Running)
	return c.await(ctx, name, func(vm *v1.VirtualMachine) (bool, error) {
		if reached, err := arrived(vm); err != nil || !reached {
			return false, err
		}
		return vm.Status.Runner != nil && vm.Status.Runner.PodUID != before.UID, nil
	})
}
