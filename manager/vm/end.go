package vm

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
)

// annotationCarriedOut of a VM is the uid of the pod whose guest has shut itself
// down, and whose VM was stopped for it. It is written with the state: should the
// user want the VM to run again before that pod is gone, its word counts no more.
const annotationCarriedOut = v1.GroupName + "/stopped-by-guest-in"

// endOfGuest carries out what the end of the guest means: the VM shall be stopped,
// or its pod has done what it was there for.
func (c *reconciler) endOfGuest(ctx context.Context, v *visit) (outcome, error) {
	if v.decision.stop {
		return nil, c.stop(ctx, v)
	}
	if v.decision.replace != "" {
		return nil, c.replace(ctx, v)
	}
	return nil, nil
}

// stop writes into the definition what the guest wants.
func (c *reconciler) stop(ctx context.Context, v *visit) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": v.vm.ResourceVersion, // the user may just have written something else
			"annotations":     map[string]string{annotationCarriedOut: string(v.pod.UID)},
		},
		"spec": map[string]any{"vm": map[string]any{"state": v1.Stopped}},
	})
	if err != nil {
		return fmt.Errorf("stop VM %s: %w", v.vm.Name, err)
	}
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Namespace = v.vm.Name, v.vm.Namespace
	err = c.client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, patch), managerWriter)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // then it comes again
		return fmt.Errorf("stop VM %s, whose guest has shut itself down: %w", v.vm.Name, err)
	}
	return nil
}

// replace deletes the pod: its stateful set makes another one.
func (c *reconciler) replace(ctx context.Context, v *visit) error {
	c.event(ctx, v, replaced(v))
	err := c.client.Delete(ctx, v.pod, client.Preconditions{UID: &v.pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s, whose guest has ended: %w", v.pod.Name, err)
	}
	return nil
}
