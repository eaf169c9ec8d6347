package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// PodSource contains what the VM's pod is created from, in addition to the definition.
type PodSource struct {
	// Claims that the pod mounts; nil if they are unknown.
	Claims []objects.Claim
	// Secret is the name of the display secret; "" without a secret.
	Secret string
	// Architecture of the guest, as in the VM's status.
	Architecture string
	// Frozen is set if no pod may start from this source.
	Frozen bool
}

// NextPod compares the VM's pod with the pod that its StatefulSet would create now.
type NextPod struct {
	// Changes of the definition need a new pod.
	Changes []v1.RestartAwaitingChange
	// Applied means that the StatefulSet is known to create pods from the current definition.
	Applied bool
	// Replace is the reason for deleting the pod; "" keeps the pod.
	Replace string
}

// StatefulSet applies the StatefulSet of the VM, with or without a pod, as decided.
func (r *Round) StatefulSet(ctx context.Context, from PodSource, d decide.Decision) (next NextPod, did decide.Report) {
	if from.Claims == nil {
		return next, did // the volumes of the pod are unknown
	}
	vm := objects.ForArchitecture(r.VM, from.Architecture)
	set, err := objects.StatefulSet(vm, r.Settings, from.Claims, from.Secret, d.Replicas, from.Frozen)
	if err != nil {
		did.Stop(decide.Stalled{Reason: decide.ReasonRefused, Message: decide.Readable(err.Error())}, nil)
		return next, did
	}
	if p := objects.TightLimit(r.VM); p != nil {
		did.Problem(decide.ReasonLimit, p.String())
	}
	if r.Pod != nil && !decide.Terminating(r.Pod) {
		next.Changes = objects.PodChanges(&r.Pod.ObjectMeta, set)
	}
	if d.Stop {
		return next, did // the VM is Stopped in the next reconciliation
	}
	if r.ForeignStatefulSet() {
		return next, r.foreignStatefulSet(ctx, d)
	}
	have, hash := r.trustedStatefulSet(d), set.Annotations[objects.AnnotationApplied]
	next.Applied = have != nil && have.Annotations[objects.AnnotationApplied] == hash
	version, o, err := r.ensureObject(ctx, objects.KindStatefulSet, hash, set, have)
	if version != 0 && (have == nil || version > objects.VersionOf(have)) {
		r.memory.statefulSet = version
	}
	switch {
	case decide.Refused(err) != nil && d.Replicas == 0 && r.Pod != nil && !decide.Terminating(r.Pod):
		err = errors.Join(err, r.scaleDown(ctx))
	case err != nil, o != nil, d.Replicas == 0:
	case decide.Stuck(r.Pod) && objects.Outdated(&r.Pod.ObjectMeta, set):
		next = NextPod{Replace: "it was not started"} // the pod runs no guest that must be asked
	}
	did.Stop(o, err)
	return next, did
}

// foreignStatefulSet handles a StatefulSet that this manager has not created. It leaves it alone, except that it
// ends the pod of a VM that must not run. A change could give the pod a second runner next to the existing runner.
func (r *Round) foreignStatefulSet(ctx context.Context, d decide.Decision) (did decide.Report) {
	taken := notOurs(objects.KindStatefulSet, r.VM, r.Snapshot.StatefulSet)
	if taken != nil {
		did.Stop(taken, nil)
		return did
	}
	var err error
	if d.Replicas == 0 && r.Pod != nil && !decide.Terminating(r.Pod) {
		err = r.scaleDown(ctx)
	}
	did.Stop(decide.Stalled{Reason: decide.ReasonNameTaken, Message: fmt.Sprintf(
		"StatefulSet %s is not this manager's, but of a VM-Operator before 3.4: stop the VM, then delete it "+
			"(kubectl delete statefulset %[1]s); claims stay",
		r.VM.Name)}, err)
	return did
}

// scaleDown ends the pod of a VM that must not run. It is used when the API server rejects the VM's definition,
// which is no reason to keep the VM running.
func (r *Round) scaleDown(ctx context.Context) error {
	patch := []byte(`{"spec":{"replicas":0}}`)
	_, err := r.patchObject(ctx, objects.KindStatefulSet, r.VM.Name, types.MergePatchType, patch)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("scale down StatefulSet %s: %w", r.VM.Name, err)
	}
	return nil
}

// trustedStatefulSet returns the StatefulSet for comparison. A manager that has just started must not trust the hash
// if a pod exists but shouldn't, or the reverse: someone may have scaled the StatefulSet. In this case the function
// removes the hash.
func (r *Round) trustedStatefulSet(d decide.Decision) *objects.Metadata {
	have := r.Snapshot.StatefulSet
	_, remembered := r.memory.written.writeOf(objects.KindStatefulSet.String())
	if (r.Pod == nil) != (d.Replicas > 0) || remembered || have == nil || decide.Terminating(r.Pod) {
		return have
	}
	have = have.DeepCopy()
	delete(have.Annotations, objects.AnnotationApplied)
	return have
}
