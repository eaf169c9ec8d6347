package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Field owners of a migration's status: the manager's part is written separately from its other fields, and the
// waiting runner on the target has its own part.
const (
	migrationOwner = managerOwner + "-migration"
	targetOwner    = client.FieldOwner("vm-runner-target")
)

// Migration writes the state of the guest's migration, which may be nil, and the ordinal of its pod. It reports
// whether it did; it writes no status if the VM has changed since the snapshot.
func (r *Round) Migration(ctx context.Context, record *v1.Migration, ordinal int32) (written bool, err error) {
	status := v1.VirtualMachineStatus{Migration: record, PodOrdinal: ordinal}
	version, err := r.writeStatus(ctx, r.VM.ResourceVersion, status, migrationOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.retryAt(r.Now.Add(staleRetry))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write into the status of VM %s how far its migration is: %w", r.VM.Name, err)
	}
	r.memory.status = version
	if record != nil {
		if e := decide.MigrationEvent(record); e != nil {
			r.recordEvent(ctx, *e)
		}
	}
	return true, nil
}

// Held reports whether a finalizer delays the VM's deletion until a migration that copies its disks has finished.
func (r *Round) Held() bool { return slices.Contains(r.VM.Finalizers, v1.MigrationFinalizer) }

// Hold adds or removes the finalizer that delays the VM's deletion until a migration that copies its disks has
// finished. It reports whether the VM's version has changed.
func (r *Round) Hold(ctx context.Context, hold bool) (changed bool, err error) {
	if r.Held() == hold {
		return false, nil
	}
	all := slices.DeleteFunc(slices.Clone(r.VM.Finalizers), func(f string) bool { return f == v1.MigrationFinalizer })
	if hold {
		all = append(all, v1.MigrationFinalizer)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.VM.UID, "resourceVersion": r.VM.ResourceVersion, "finalizers": all},
	})
	if err != nil {
		return false, err
	}
	vm := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: r.VM.Name, Namespace: r.VM.Namespace}}
	vm.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	err = r.w.client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, patch), managerOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.retryAt(r.Now.Add(staleRetry))
		return true, nil
	case err != nil:
		return false, fmt.Errorf("write into VM %s that it is held by a migration: %w", r.VM.Name, err)
	}
	r.memory.status = max(r.memory.status, objects.VersionOf(vm))
	return true, nil
}

// MarkGuest records that the guest has arrived, in the claim for its runner's data.
func (r *Round) MarkGuest(ctx context.Context) error {
	claim, patch := objects.MarkGuest(r.VM, r.Snapshot.Claims)
	if patch == nil {
		return nil
	}
	_, err := r.patchObject(ctx, objects.KindClaim, claim, types.MergePatchType, patch)
	if err != nil {
		return fmt.Errorf("write into PersistentVolumeClaim %s that the guest has come there: %w", claim, err)
	}
	return nil
}

// ForgetArrival removes from the VM's status the report of a runner that waited for its guest and is gone.
func (r *Round) ForgetArrival(ctx context.Context) error {
	_, err := r.writeStatus(ctx, "", struct{}{}, targetOwner)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove from the status of VM %s the runner that has waited for its guest: %w", r.VM.Name, err)
	}
	return nil
}
