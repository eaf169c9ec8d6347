package vm

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// replacePorts sets back the ports of a service. When one is applied they are merged
// by their numbers, so that one whose number somebody has changed stays, and has the
// name of ours.
func (c *reconciler) replacePorts(ctx context.Context, v *visit, service *applycorev1.ServiceApplyConfiguration) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ports": service.Spec.Ports}})
	if err != nil {
		return fmt.Errorf("set back the ports of service %s: %w", v.vm.Name, err)
	}
	if _, err := c.patch(ctx, serviceKind, v.vm.Name, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("set back the ports of service %s: %w", v.vm.Name, err)
	}
	return nil
}

// makeService makes the service by which the VM's screen is reached, or removes it.
func (c *reconciler) makeService(ctx context.Context, v *visit) (outcome, error) {
	service, err := objects.Service(v.vm, v.settings)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	if service != nil {
		hash := service.Annotations[objects.AnnotationApplied]
		_, o, err := c.ensure(ctx, v, serviceKind, hash, service, v.service)
		if apierrors.IsInvalid(err) && v.service != nil {
			if err := c.replacePorts(ctx, v, service); err != nil {
				return o, err
			}
			_, o, err = c.ensure(ctx, v, serviceKind, hash, service, v.service)
		}
		return o, err
	}
	if v.service == nil || v.service.DeletionTimestamp != nil || notOurs(serviceKind, v.vm, v.service) != nil {
		return nil, nil
	}
	v.memory.written.forget(serviceKind.String())
	err = c.client.Delete(ctx, v.service, client.Preconditions{UID: &v.service.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("delete service %s: %w", v.service.Name, err)
	}
	return nil, nil
}
