package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// owner is the field manager of the manager's writes.
const owner = publish.Owner

// labelsOf returns the labels for the objects of a disk.
func labelsOf(d *v1.VirtualDisk) map[string]string {
	app := disk.AppName
	if d.Kind == string(v1.KindVirtualImage) {
		app = disk.ImageAppName
	}
	return map[string]string{
		objects.LabelName: app, objects.LabelInstance: d.Name, objects.LabelManagedBy: objects.ManagerName,
	}
}

// createClaim creates the claim of a disk.
func (c *Controller) createClaim(ctx context.Context, d *v1.VirtualDisk, from *v1.VirtualDiskSnapshot) (
	*corev1.PersistentVolumeClaim, error,
) {
	claim := c.claimOf(d, disk.ClaimOf(d))
	claim.Spec.DataSource = disk.ClaimSource(d, from)
	err := c.opts.Client.Create(ctx, claim, owner)
	if err != nil {
		return nil, fmt.Errorf("create the claim %s: %w", disk.ClaimOf(d), err)
	}
	return claim, c.book.Learn(claim.DeepCopy())
}

// claimOf returns a new claim for a disk, without a data source.
func (c *Controller) claimOf(d *v1.VirtualDisk, name string) *corev1.PersistentVolumeClaim {
	of := d.Spec.PersistentVolumeClaim
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: c.opts.Namespace,
		Labels: labelsOf(d),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, v1.GroupVersion().WithKind(string(c.kind))),
		},
	}}
	claim.OwnerReferences[0].BlockOwnerDeletion = nil // blocking would need permission on finalizers
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: of.StorageClassName, VolumeMode: &of.VolumeMode,
		AccessModes: []corev1.PersistentVolumeAccessMode{disk.AccessMode(d)},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: of.Size},
		},
	}
	return claim
}

// growClaim grows the claim of a disk to the requested size.
func (c *Controller) growClaim(ctx context.Context, d *v1.VirtualDisk, claim *corev1.PersistentVolumeClaim) (
	*corev1.PersistentVolumeClaim, error,
) {
	size := disk.Size(d)
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size.String()}}},
	})
	if err != nil {
		return claim, err
	}
	next := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: c.opts.Namespace}}
	if err := c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner); err != nil {
		return claim, fmt.Errorf("let the claim %s grow to %s: %w", claim.Name, size.String(), err)
	}
	return next, c.book.Learn(next.DeepCopy())
}

// writeStatus writes the status of a disk, unless the disk has changed since it was read.
func (c *Controller) writeStatus(ctx context.Context, d *v1.VirtualDisk, is v1.VirtualDiskStatus) error {
	meta := metav1.ObjectMeta{Name: d.Name, Namespace: c.opts.Namespace}
	var next client.Object = &v1.VirtualDisk{ObjectMeta: meta}
	var status any = is
	if c.kind == v1.KindVirtualImage {
		next, status = &v1.VirtualImage{ObjectMeta: meta}, disk.ImageStatus(is)
	}
	err := publish.Status(ctx, c.opts.Client, d, next, status)
	if apierrors.IsNotFound(err) {
		next.SetResourceVersion(d.ResourceVersion)
		err = errors.Join(err, c.book.Forget(next))
	}
	if err != nil {
		return fmt.Errorf("write the status of the %s %s: %w", c.kind, d.Name, err)
	}
	return c.book.Learn(next)
}

// recordEvent writes an event about the phase of a disk. Errors are ignored.
func (c *Controller) recordEvent(ctx context.Context, d *v1.VirtualDisk, is v1.VirtualDiskStatus) {
	publish.Write(ctx, c.opts.Client, publish.Event{
		Kind: string(c.kind), Key: string(is.Phase) + "/" + is.Reason + "/" + is.Message,
		Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase), Warning: is.Phase == v1.DiskFailed,
		Note: decide.Shorten(cmp.Or(is.Message, "it is "+string(is.Phase)), publish.LongestNote),
	}.Of(d, c.opts.Now(), c.opts.Instance))
}
