package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
)

// takenTime is how long a manager may take to see an operation before the user is informed of the delay.
const takenTime = 10 * time.Second

// operateVM executes an operation in the user's name. It returns the VM after the operation's signal was sent or,
// if wait is true, after the operation has taken effect.
func (c *cluster) operateVM(ctx context.Context, cmd *cobra.Command, vm *v1.VirtualMachine,
	spec v1.VirtualMachineOperationSpec, wait bool,
) (*v1.VirtualMachine, error) {
	spec.VirtualMachineName = vm.Name
	o := act.NewOperation(c.namespace, c.userName(ctx), spec)
	o, err := c.operations.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, err
	}
	soon := ctx
	if !wait {
		var cancel context.CancelFunc
		soon, cancel = context.WithTimeoutCause(ctx, takenTime, errNotTaken)
		defer cancel()
	}
	name := o.Name
	switch o, err := c.awaitOperation(soon, name, wait); {
	case errors.Is(err, errNotTaken):
		cmd.PrintErrf("no manager has taken up the operation %s yet, which is carried out when one does: "+
			"kubectl get vmop %[1]s\n", name)
	case err != nil:
		return nil, err
	case o.Status.Phase == v1.OperationFailed || o.Status.Phase == v1.OperationSuperseded:
		return nil, hinted{
			fmt.Errorf("%s %s: %s: %s", spec.Type, vm.Name, o.Status.Reason, cli.Printable(o.Status.Message)),
			"kubectl vmop why " + vm.Name,
		}
	}
	return c.getVM(ctx, vm.Name)
}

var errNotTaken = errors.New("no manager has taken up the operation yet")

// awaitOperation waits until the signal of an operation was sent or, if finished is true, until the operation has
// finished.
func (c *cluster) awaitOperation(ctx context.Context, name string, finished bool) (*v1.VirtualMachineOperation, error) {
	reached := func(o *v1.VirtualMachineOperation) bool {
		sent := meta.IsStatusConditionTrue(o.Status.Conditions, v1.OperationConditionSignalSent)
		return o.Status.Phase.Finished() || sent && !finished
	}
	return awaitObject(ctx, c.operations, name, func(o *v1.VirtualMachineOperation) (bool, error) {
		if o == nil {
			return false, fmt.Errorf("the operation %s has been deleted meanwhile", name)
		}
		return reached(o), nil
	})
}
