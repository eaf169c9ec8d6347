package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// GuestEnd handles the end of the guest: it stops the VM, or deletes its pod so that the StatefulSet creates another
// pod.
func (r *Round) GuestEnd(ctx context.Context, d decide.Decision) (did decide.Report) {
	switch {
	case d.Stop:
		did.Stop(nil, r.stopVM(ctx))
	case d.Replace != "":
		did.Stop(nil, r.replacePod(ctx, d.Replace))
	}
	return did
}

// stopVM sets spec.vm.state to Stopped after the guest has ended and must not restart.
func (r *Round) stopVM(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": r.VM.ResourceVersion, // detects a concurrent change by the user
			"annotations":     map[string]string{decide.AnnotationCarriedOut: string(r.Pod.UID)},
		},
		"spec": map[string]any{"vm": map[string]any{"state": v1.Stopped}},
	})
	if err != nil {
		return fmt.Errorf("stop VM %s: %w", r.VM.Name, err)
	}
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Namespace = r.VM.Name, r.VM.Namespace
	err = r.w.client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, patch), managerOwner)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // another reconciliation follows
		return fmt.Errorf("stop VM %s after the end of its guest: %w", r.VM.Name, err)
	}
	return nil
}

// replacePod deletes a pod after its machine has ended, or a pod that could not start.
func (r *Round) replacePod(ctx context.Context, why string) error {
	r.recordEvent(ctx, decide.PodReplaced(r.Snapshot, why))
	err := r.w.client.Delete(ctx, r.Pod, client.Preconditions{UID: &r.Pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s after the end of its guest: %w", r.Pod.Name, err)
	}
	return nil
}
