package vm

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/objects"
)

// makeStatefulSet makes what keeps the VM's pod, or has none.
func (c *reconciler) makeStatefulSet(ctx context.Context, v *visit) (outcome, error) {
	if v.claims == nil {
		return nil, nil // nobody knows what the pod would have to mount
	}
	set, err := objects.StatefulSet(v.vm, v.settings, v.claims, v.secret, v.decision.replicas, v.frozen)
	if err != nil {
		return stalled{reasonRefused, readable(err.Error())}, nil
	}
	if p := objects.TightLimit(v.vm); p != nil {
		v.problems = append(v.problems, problem{reasonLimit, p.String()})
	}
	if v.pod != nil && !terminating(v.pod) {
		v.changes = objects.PodChanges(&v.pod.ObjectMeta, set)
	}
	if v.decision.stop {
		return nil, nil // it comes again, stopped
	}
	if (v.pod == nil) == (v.decision.replicas > 0) {
		v.distrust()
	}
	wrote, o, err := c.ensure(ctx, v, statefulSetKind, set.Annotations[objects.AnnotationApplied], set, v.statefulSet)
	if last, _ := v.memory.written.of(statefulSetKind.String()); wrote && (v.statefulSet == nil || last.version > versionOf(v.statefulSet)) {
		v.memory.made = last.version
	}
	if refused(err) != nil && v.decision.replicas == 0 && v.pod != nil && !terminating(v.pod) {
		return o, errors.Join(err, c.scaleDown(ctx, v))
	}
	if err == nil && o == nil && v.decision.replicas > 0 && stuck(v.pod) && objects.Outdated(&v.pod.ObjectMeta, set) {
		v.decision.replace, v.changes = "it was not started", nil // no guest has to be asked
	}
	return o, err
}

// scaleDown ends the pod of a VM that shall not run, and whose definition the API
// server does not take: that is no reason to let it run.
func (c *reconciler) scaleDown(ctx context.Context, v *visit) error {
	object := metadataOf(statefulSetKind)
	object.Name, object.Namespace = v.vm.Name, v.vm.Namespace
	err := c.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), managerWriter)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("scale down StatefulSet %s: %w", v.vm.Name, err)
	}
	return nil
}

// distrust makes a manager that has just started not believe the hash of a stateful
// set whose pod is not as it says: somebody may have scaled it meanwhile.
func (v *visit) distrust() {
	if _, remembered := v.memory.written.of(statefulSetKind.String()); !remembered && v.statefulSet != nil && !terminating(v.pod) {
		delete(v.statefulSet.Annotations, objects.AnnotationApplied)
	}
}
