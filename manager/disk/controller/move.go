package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// ToCopy returns the disks to copy when the guest of a VM moves to another node, or why they can't be copied.
//
// See docs/decisions/0160-copies-of-local-disks.md.
func (c *Controller) ToCopy(vm *v1.VirtualMachine, migration types.UID) (
	all []v1.MigrationDisk, why string, err error,
) {
	if why := c.whyUnavailable(); why != "" {
		return nil, "", errors.New(why)
	}
	for _, name := range objects.LocalDisks(vm) {
		d, err := c.book.Disk(name)
		switch {
		case err != nil:
			return nil, "", err
		case d == nil, disk.Holder(d) != vm.Name:
			return nil, fmt.Sprintf("the VM doesn't have the VirtualDisk %s of its definition: it has it after a restart",
				name), nil
		}
		all = append(all, v1.MigrationDisk{Name: name, From: d.Status.Target, Claim: disk.CopyName(d, migration)})
	}
	return all, "", nil
}

// MakeCopies creates the claims for the copies of a VM's disks. It returns why they can't be created, if so.
func (c *Controller) MakeCopies(ctx context.Context, vm *v1.VirtualMachine) (why string, err error) {
	if why := c.whyUnavailable(); why != "" {
		return "", errors.New(why)
	}
	for _, is := range vm.Status.Migration.Disks {
		d, from, to, err := c.copyOf(is)
		if err != nil {
			return "", err
		}
		switch {
		case d == nil || from == nil:
			return fmt.Sprintf("the VirtualDisk %s has no claim %s any more", is.Name,
				is.From.PersistentVolumeClaimName), nil
		case to != nil:
			continue
		}
		why, err := c.makeCopy(ctx, d, from, is.Claim)
		if why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// makeCopy creates a claim for the copy of a disk, with the class and size of the claim from. It returns what prevents
// it. An earlier manager may have created the claim.
func (c *Controller) makeCopy(
	ctx context.Context, d *v1.VirtualDisk, from *corev1.PersistentVolumeClaim, name string,
) (why string, err error) {
	to := c.claimOf(d, name)
	to.Spec.StorageClassName = from.Spec.StorageClassName
	to.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: sizeOf(from)}
	err = c.opts.Client.Create(ctx, to, owner)
	if apierrors.IsAlreadyExists(err) {
		err = c.opts.Live.Get(ctx, client.ObjectKeyFromObject(to), to)
		if err == nil && !metav1.IsControlledBy(to, d) {
			return fmt.Sprintf("there is a claim %s already, which is not the VirtualDisk %s's: delete it", name, d.Name), nil
		}
	}
	switch {
	case err == nil:
		return "", c.book.Learn(to.DeepCopy())
	case decide.Refused(err) != nil:
		return fmt.Sprintf("the claim %s, for the copy of the VirtualDisk %s, is refused: %s", name, d.Name,
			decide.Readable(err.Error())), nil
	}
	return "", fmt.Errorf("create the claim %s: %w", name, err)
}

// sizeOf returns the current size of a claim's volume. A growing volume may be smaller than requested.
func sizeOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if has := claim.Status.Capacity.Storage(); !has.IsZero() {
		return *has
	}
	return *claim.Spec.Resources.Requests.Storage()
}

// copyOf returns a disk that is being copied, with its source and target claims; nil for each that is missing or has
// been replaced.
func (c *Controller) copyOf(is v1.MigrationDisk) (
	d *v1.VirtualDisk, from, to *corev1.PersistentVolumeClaim, err error,
) {
	if d, err = c.book.Disk(is.Name); d == nil || err != nil {
		return nil, nil, nil, err
	}
	from, errFrom := c.book.ClaimNamed(is.From.PersistentVolumeClaimName)
	if from != nil && from.UID != is.From.UID {
		from = nil
	}
	to, errTo := c.book.ClaimNamed(is.Claim)
	if to != nil && !metav1.IsControlledBy(to, d) {
		to = nil
	}
	return d, from, to, errors.Join(errFrom, errTo)
}

// Switched reports whether a disk of a VM uses its copy. If so, the guest has moved.
func (c *Controller) Switched(vm *v1.VirtualMachine) bool {
	for _, is := range vm.Status.Migration.Disks {
		if d, err := c.book.Disk(is.Name); err == nil && d != nil &&
			d.Status.Target.PersistentVolumeClaimName == is.Claim {
			return true
		}
	}
	return false
}

// Switch makes the disks of a moved guest use their copies. Call it before the VM's status records the move, and again
// after an error.
func (c *Controller) Switch(ctx context.Context, vm *v1.VirtualMachine) error {
	for _, is := range vm.Status.Migration.Disks {
		d, _, to, err := c.copyOf(is)
		switch {
		case err != nil:
			return err
		case d == nil, d.Status.Target.UID != is.From.UID: // already switched
			continue
		case to == nil:
			return fmt.Errorf("the VirtualDisk %s gets its copy: there is no claim %s yet", is.Name, is.Claim)
		}
		next := disk.Moved(d, v1.DiskTarget{PersistentVolumeClaimName: to.Name, UID: to.UID})
		if err := c.writeStatus(ctx, d, next); err != nil {
			return err
		}
	}
	return nil
}

// Abandon hands the leftover volumes of a migration to its operation. They are then deleted together with the
// operation. These are the source volumes or, if the migration has failed, the copies.
func (c *Controller) Abandon(ctx context.Context, m *v1.Migration) error {
	if m.CopiesKept {
		return nil
	}
	for _, is := range m.Disks {
		d, from, to, err := c.copyOf(is)
		if err != nil {
			return err
		}
		left := from
		if m.Stage == v1.MigrationFailed {
			left = to
		}
		if d == nil || left == nil || left.UID == d.Status.Target.UID || !metav1.IsControlledBy(left, d) {
			continue
		}
		if err := c.leaveTo(ctx, left, m); err != nil {
			return err
		}
	}
	return nil
}

// leaveTo makes the migration's operation the owner of a claim, unless the claim has changed since it was read.
func (c *Controller) leaveTo(ctx context.Context, claim *corev1.PersistentVolumeClaim, m *v1.Migration) error {
	of := metav1.OwnerReference{
		APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachineOperation", Name: m.Operation, UID: m.OperationUID,
		Controller: new(true),
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "resourceVersion": claim.ResourceVersion, "ownerReferences": []metav1.OwnerReference{of},
	}})
	if err != nil {
		return err
	}
	next := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: c.opts.Namespace}}
	err = c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("leave the claim %s to the VirtualMachineOperation %s: %w", claim.Name, m.Operation, err)
	}
	return c.book.Learn(next.DeepCopy())
}
