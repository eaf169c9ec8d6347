package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Eviction creates or removes the PodDisruptionBudget that protects the VM's pod from eviction. If the node is being
// drained, it requests that the guest moves away.
func (r *Round) Eviction(ctx context.Context, e decide.Eviction) (did decide.Report) {
	did.RetryAt(e.Again)
	if !e.Held {
		did.Stop(nil, r.deleteObject(ctx, objects.KindDisruptionBudget, r.Snapshot.DisruptionBudget))
		return did
	}
	budget, err := objects.DisruptionBudget(r.VM, r.Settings)
	if err != nil {
		did.Err = err
		return did
	}
	_, o, err := r.ensureObject(ctx, objects.KindDisruptionBudget, budget.Annotations[objects.AnnotationApplied],
		budget,
		r.Snapshot.DisruptionBudget)
	did.Stop(o, err)
	switch {
	case e.Why != "":
		r.recordEvent(ctx, decide.DrainHeld(r.Snapshot, e))
	case e.Move:
		did.Append(r.Request(ctx, decide.Leave(r.Snapshot)))
	}
	return did
}

// Request creates an operation on behalf of the manager, unless the operation exists.
func (r *Round) Request(ctx context.Context, o *v1.VirtualMachineOperation) (did decide.Report) {
	err := r.w.client.Create(ctx, o, managerOwner)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		did.Stop(decide.Refused(err), fmt.Errorf("create VirtualMachineOperation %s: %w", o.Name, err))
	}
	return did
}
