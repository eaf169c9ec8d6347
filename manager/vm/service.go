package vm

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// makeService makes the service by which the VM's screen is reached, or removes it.
func (c *reconciler) makeService(ctx context.Context, v *visit) (outcome, error) {
	service, err := objects.Service(v.vm, v.settings)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	if service != nil {
		_, o, err := c.ensure(ctx, v, serviceKind, service.Annotations[objects.AnnotationApplied], service, v.service)
		return o, err
	}
	if v.service == nil || v.service.DeletionTimestamp != nil || notOurs(serviceKind, v.vm, v.service) != nil {
		return nil, nil
	}
	delete(v.memory.written, serviceKind.String())
	err = c.client.Delete(ctx, v.service, client.Preconditions{UID: &v.service.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return nil, fmt.Errorf("delete service %s: %w", v.service.Name, err)
	}
	return nil, nil
}
