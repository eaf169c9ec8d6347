package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/vm/objects"
	"vmop/runner/control"
)

// newReclaim returns the verb that lets an administrator end a migration that the runners can't finish; see
// docs/decisions/0140-reclaim.md.
func newReclaim(f *flags) *cobra.Command {
	var form string
	var sure bool
	cmd := &cobra.Command{
		Use: "reclaim NAME --runs-nowhere-else", Short: "Recover a VM after a failed migration",
		Long: "Recover a VM after a failed migration when the other pod will never return. The VM waits\n" +
			"because its guest may be running in that pod. reclaim ends what is left of the guest\n" +
			"here, and the VM starts again from its current disks. The other pod must be gone: if its\n" +
			"node never returns, delete the pod with kubectl delete pod --force.",
		GroupID: groupPower,
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	cmd.Flags().BoolVar(&sure, "runs-nowhere-else", false,
		"confirm that the guest runs nowhere else: the other pod has ended,\nor its node is off")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return cli.UsageError{Err: errors.New("reclaim: the manager has no request for it: leave --manager out")}
		case !sure:
			return cli.UsageError{Err: errors.New("the guest may be running in the other pod, and a second one would write to " +
				"the same disks. If you know that it runs nowhere else, and never will: --runs-nowhere-else")}
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		if err := c.noOther(cmd.Context(), vm); err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		if err := c.runnerClient(cmd.Context(), vm).Act(ctx, control.Reclaim); err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, "reclaimed")
	}
	return cmd
}

// noOther returns an error if the other pod, which the guest may have moved to, could be running.
func (c *cluster) noOther(ctx context.Context, vm *v1.VirtualMachine) error {
	name := objects.PodName(vm.Name, objects.OtherOrdinal(vm))
	p, err := c.core.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && p.Spec.NodeName == "":
		return nil
	case err != nil:
		return err
	}
	return hinted{
		fmt.Errorf("pod %s exists on node %s: the guest may be running in it", name, p.Spec.NodeName),
		"if that node is gone for good: kubectl delete pod " + name + " --force",
	}
}
