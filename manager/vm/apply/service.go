package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Service creates or removes the service that exposes the VM's display.
func (r *Round) Service(ctx context.Context) (did decide.Report) {
	service, err := objects.Service(r.VM, r.Settings)
	switch {
	case err != nil:
		did.Stop(decide.Stalled{Reason: decide.ReasonRefused, Message: decide.Readable(err.Error())}, nil)
	case service != nil:
		did.Stop(r.ensureService(ctx, service))
	default:
		did.Stop(nil, r.deleteObject(ctx, objects.KindService, r.Snapshot.Service))
	}
	return did
}

func (r *Round) ensureService(ctx context.Context, service *applycorev1.ServiceApplyConfiguration) (
	decide.Obstacle, error,
) {
	have, hash := r.Snapshot.Service, service.Annotations[objects.AnnotationApplied]
	_, o, err := r.ensureObject(ctx, objects.KindService, hash, service, have)
	if apierrors.IsInvalid(err) && have != nil {
		if err := r.replacePorts(ctx, service); err != nil {
			return o, err
		}
		_, o, err = r.ensureObject(ctx, objects.KindService, hash, service, have)
	}
	return o, err
}

// replacePorts restores the ports of a service. Server-side apply merges ports by number: if a user has changed the
// number of our port, the changed port would stay, under our name.
func (r *Round) replacePorts(ctx context.Context, service *applycorev1.ServiceApplyConfiguration) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ports": service.Spec.Ports}})
	if err == nil {
		_, err = r.patchObject(ctx, objects.KindService, r.VM.Name, types.MergePatchType, patch)
	}
	if err != nil {
		return fmt.Errorf("restore the ports of service %s: %w", r.VM.Name, err)
	}
	return nil
}

// deleteObject deletes an object of the VM if it exists.
func (r *Round) deleteObject(ctx context.Context, k objects.Kind, have *objects.Metadata) error {
	if have == nil || have.DeletionTimestamp != nil || notOurs(k, r.VM, have) != nil {
		return nil
	}
	r.memory.written.forgetWrite(k.String())
	err := r.w.client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", k, have.Name, err)
	}
	return nil
}
