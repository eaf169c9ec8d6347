package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// PodSource is what the VM's pod is made from besides the definition.
type PodSource struct {
	// Claims that the pod mounts. Nil: they are not known.
	Claims []objects.Claim
	// Secret is the name of the display secret; "" for none.
	Secret string
	// Architecture of the guest, as in the VM's status.
	Architecture string
	// Frozen: no pod must be started from this.
	Frozen bool
}

// NextPod is how the VM's pod compares with the one that its stateful set would make now.
type NextPod struct {
	// Changes of the definition need a new pod.
	Changes []v1.RestartAwaitingChange
	// Applied means that the stateful set is known to make a pod of the present definition.
	Applied bool
	// Replace says why the pod is to be deleted; "" if it is not.
	Replace string
}

// StatefulSet makes the object that keeps the VM's pod, or has none, as decided.
func (r *Round) StatefulSet(ctx context.Context, from PodSource, d decide.Decision) (next NextPod, did decide.Report) {
	if from.Claims == nil {
		return next, did // it is not known what the pod would mount
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
		return next, did // the next reconciliation has a VM that is Stopped
	}
	if r.ForeignStatefulSet() {
		return next, r.foreignStatefulSet(ctx, d)
	}
	have, hash := r.trustedStatefulSet(d), set.Annotations[objects.AnnotationApplied]
	next.Applied = have != nil && have.Annotations[objects.AnnotationApplied] == hash
	version, o, err := r.ensure(ctx, objects.KindStatefulSet, hash, set, have)
	if version != 0 && (have == nil || version > objects.VersionOf(have)) {
		r.memory.statefulSet = version
	}
	switch {
	case decide.Refused(err) != nil && d.Replicas == 0 && r.Pod != nil && !decide.Terminating(r.Pod):
		err = errors.Join(err, r.scaleDown(ctx))
	case err != nil, o != nil, d.Replicas == 0:
	case decide.Stuck(r.Pod) && objects.Outdated(&r.Pod.ObjectMeta, set):
		next = NextPod{Replace: "it was not started"} // no guest has to be asked
	}
	did.Stop(o, err)
	return next, did
}

// foreignStatefulSet leaves one alone that this manager has not made, except that it ends the pod of a VM that must not
// run. Were it changed, its pod could get a second runner beside the one that it has.
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

// scaleDown ends the pod of a VM that must not run, and whose definition the API server
// refuses: that is no reason to keep it running.
func (r *Round) scaleDown(ctx context.Context) error {
	patch := []byte(`{"spec":{"replicas":0}}`)
	_, err := r.patch(ctx, objects.KindStatefulSet, r.VM.Name, types.MergePatchType, patch)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("scale down StatefulSet %s: %w", r.VM.Name, err)
	}
	return nil
}

// trustedStatefulSet returns the stateful set without its hash if a manager that has just
// started must not believe it, because there is a pod and should not be, or the reverse:
// it may have been scaled meanwhile.
func (r *Round) trustedStatefulSet(d decide.Decision) *objects.Metadata {
	have := r.Snapshot.StatefulSet
	_, remembered := r.memory.written.of(objects.KindStatefulSet.String())
	if (r.Pod == nil) != (d.Replicas > 0) || remembered || have == nil || decide.Terminating(r.Pod) {
		return have
	}
	have = have.DeepCopy()
	delete(have.Annotations, objects.AnnotationApplied)
	return have
}
