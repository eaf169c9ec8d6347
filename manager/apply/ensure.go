package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// ensure applies an object of the VM's name unless it is as it should be, and returns its
// version if it was written, else 0. An object that isn't the VM's is left alone.
func (r *Round) ensure(ctx context.Context, k objects.Kind, hash string, configuration any, have *objects.Metadata) (
	uint64, decide.Obstacle, error,
) {
	if taken := notOurs(k, r.VM, have); taken != nil {
		return 0, taken, nil
	}
	if r.current(k.String(), hash, have) || !r.mayWrite() {
		return 0, nil, nil
	}
	text, err := json.Marshal(configuration)
	if err != nil {
		return 0, nil, fmt.Errorf("apply %s %s: %w", k, r.VM.Name, err)
	}
	object, err := r.patch(ctx, k, r.VM.Name, types.ApplyPatchType, text, client.ForceOwnership)
	if err != nil {
		return 0, decide.Refused(err), fmt.Errorf("apply %s %s: %w", k, r.VM.Name, err)
	}
	version := objects.VersionOf(object)
	r.memory.written.set(k.String(), written{hash: hash, version: version, generation: object.Generation, at: r.Now})
	return version, nil, nil
}

// patch changes an object in the VM's namespace, and returns its metadata after that.
func (r *Round) patch(ctx context.Context, k objects.Kind, name string, how types.PatchType, text []byte,
	opts ...client.PatchOption,
) (*objects.Metadata, error) {
	object := objects.NewMetadata(k)
	object.Name, object.Namespace = name, r.VM.Namespace
	return object, r.w.client.Patch(ctx, object, client.RawPatch(how, text), append(opts, managerOwner)...)
}

// create creates an object from a configuration, where applying it could overwrite one
// that isn't the VM's.
func (r *Round) create(ctx context.Context, configuration any, object client.Object) error {
	text, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return err
	}
	return r.w.client.Create(ctx, object, managerOwner)
}

// notOurs says whose an object is that this VM must not touch; nil if it may.
func notOurs(k objects.Kind, vm *v1.VirtualMachine, have *objects.Metadata) decide.Obstacle {
	if have == nil {
		return nil
	}
	owner := metav1.GetControllerOf(have)
	switch {
	case owner != nil && owner.UID == vm.UID:
	case owner != nil && owner.Kind == "VirtualMachine" && owner.Name == vm.Name:
		return decide.Waiting{Reason: decide.ReasonOldObject, Message: fmt.Sprintf(
			"%s %s belongs to a VM of the same name that was deleted: waiting until it is gone", k, have.Name)}
	case owner != nil:
		return decide.Stalled{Reason: decide.ReasonNameTaken, Message: fmt.Sprintf(
			"%s %s belongs to %s %s: give the VM another name", k, have.Name, owner.Kind, owner.Name)}
	case have.Labels[objects.LabelManagedBy] != objects.ManagerName || have.Labels[objects.LabelInstance] != vm.Name:
		return decide.Stalled{Reason: decide.ReasonNameTaken, Message: fmt.Sprintf(
			"%s %s is not this VM's, since it lacks the labels %s=%s and %s=%s: give the VM another name, or add the labels",
			k, have.Name, objects.LabelManagedBy, objects.ManagerName, objects.LabelInstance, vm.Name)}
	}
	if have.DeletionTimestamp != nil {
		return decide.Waiting{Reason: decide.ReasonOldObject, Message: fmt.Sprintf(
			"%s %s is being deleted: waiting until it is gone", k, have.Name)}
	}
	return nil
}
