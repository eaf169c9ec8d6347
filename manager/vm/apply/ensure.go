package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// ensureObject applies an object with the VM's name unless it is up to date. It returns the version that it wrote, or
// 0. Objects that don't belong to the VM are left alone.
func (r *Round) ensureObject(ctx context.Context, k objects.Kind, hash string, configuration any,
	have *objects.Metadata) (
	uint64, decide.Obstacle, error,
) {
	if taken := notOurs(k, r.VM, have); taken != nil {
		return 0, taken, nil
	}
	if r.isCurrent(k.String(), hash, have) || !r.mayWrite() {
		return 0, nil, nil
	}
	text, err := json.Marshal(configuration)
	if err != nil {
		return 0, nil, fmt.Errorf("apply %s %s: %w", k, r.VM.Name, err)
	}
	object, err := r.patchObject(ctx, k, r.VM.Name, types.ApplyPatchType, text, client.ForceOwnership)
	if err != nil {
		return 0, decide.Refused(err), fmt.Errorf("apply %s %s: %w", k, r.VM.Name, err)
	}
	version := objects.VersionOf(object)
	r.memory.written.setWrite(k.String(), written{
		hash: hash, version: version, generation: object.Generation,
		at: r.Now,
	})
	return version, nil, nil
}

// patchObject changes an object in the VM's namespace, and returns the new metadata.
func (r *Round) patchObject(ctx context.Context, k objects.Kind, name string, how types.PatchType, text []byte,
	opts ...client.PatchOption,
) (*objects.Metadata, error) {
	object := objects.NewMetadata(k)
	object.Name, object.Namespace = name, r.VM.Namespace
	return object, r.w.client.Patch(ctx, object, client.RawPatch(how, text), append(opts, managerOwner)...)
}

// createObject creates an object from a configuration. It is used where server-side apply could overwrite an object of
// another owner.
func (r *Round) createObject(ctx context.Context, configuration any, object client.Object) error {
	text, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return err
	}
	return r.w.client.Create(ctx, object, managerOwner)
}

// notOurs returns an obstacle if an object belongs to another owner or is being deleted. It returns nil if this VM
// may change the object.
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
