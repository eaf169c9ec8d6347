package provision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// owner of the fields that the manager writes.
const owner = client.FieldOwner("vm-operator")

// labelsOf returns the labels of what belongs to a disk.
func labelsOf(d *v1.VirtualDisk) map[string]string {
	app := disk.AppName
	if d.Kind == string(v1.KindVirtualImage) {
		app = disk.ImageAppName
	}
	return map[string]string{
		objects.LabelName: app, objects.LabelInstance: d.Name, objects.LabelManagedBy: objects.ManagerName,
	}
}

// create creates the claim of a disk.
func (c *Controller) create(ctx context.Context, d *v1.VirtualDisk, from *v1.VirtualDiskSnapshot) (
	*corev1.PersistentVolumeClaim, error,
) {
	of := d.Spec.PersistentVolumeClaim
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: disk.ClaimOf(d), Namespace: c.opts.Namespace,
		Labels: labelsOf(d),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(d, v1.GroupVersion().WithKind(string(c.kind))),
		},
	}}
	claim.OwnerReferences[0].BlockOwnerDeletion = nil // which would ask for a right to finalizers
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: of.StorageClassName, VolumeMode: &of.VolumeMode, DataSource: disk.ClaimSource(d, from),
		AccessModes: []corev1.PersistentVolumeAccessMode{c.book.AccessMode(d.Name)},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: of.Size},
		},
	}
	err := c.opts.Client.Create(ctx, claim, owner)
	if err != nil {
		return nil, fmt.Errorf("create the claim %s: %w", disk.ClaimOf(d), err)
	}
	return claim, c.book.Learn(claim.DeepCopy())
}

// grow makes the claim of a disk as large as the disk is to be.
func (c *Controller) grow(ctx context.Context, d *v1.VirtualDisk, claim *corev1.PersistentVolumeClaim) (
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

// write writes the status of a disk unless the disk has changed since it was read.
func (c *Controller) write(ctx context.Context, d *v1.VirtualDisk, is v1.VirtualDiskStatus) error {
	meta := metav1.ObjectMeta{Name: d.Name, Namespace: c.opts.Namespace}
	var next client.Object = &v1.VirtualDisk{ObjectMeta: meta}
	var status any = is
	if c.kind == v1.KindVirtualImage {
		next, status = &v1.VirtualImage{ObjectMeta: meta}, disk.ImageStatus(is)
	}
	text, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": d.ResourceVersion},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return err
	}
	err = c.opts.Client.Status().Patch(ctx, next, client.RawPatch(types.JSONPatchType, text), owner)
	if apierrors.IsNotFound(err) {
		err = errors.Join(err, c.book.Forget(next))
	}
	if err != nil {
		return fmt.Errorf("write the status of the %s %s: %w", c.kind, d.Name, err)
	}
	return c.book.Learn(next)
}

// event writes an event about what a disk has become. That it could not be written keeps nothing
// else from being done.
func (c *Controller) event(ctx context.Context, d *v1.VirtualDisk, is v1.VirtualDiskStatus) {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(d, is), Namespace: c.opts.Namespace},
		EventTime:           metav1.NewMicroTime(c.opts.Now()),
		ReportingController: reportingController, ReportingInstance: cmp.Or(c.opts.Instance, objects.ManagerName),
		Type: corev1.EventTypeNormal, Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase),
		Note: decide.Shorten(cmp.Or(is.Message, "it is "+string(is.Phase)), longestNote),
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: string(c.kind),
			Namespace: c.opts.Namespace, Name: d.Name, UID: d.UID,
		},
	}
	if is.Phase == v1.DiskFailed {
		e.Type = corev1.EventTypeWarning
	}
	if err := c.opts.Client.Create(ctx, e, owner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(ctx).Error(err, "event not written", "reason", e.Reason, "note", e.Note)
	}
}

// eventName is another one for each thing that is said of a disk.
func eventName(d *v1.VirtualDisk, is v1.VirtualDiskStatus) string {
	sum := sha256.Sum256([]byte(string(d.UID) + "/" + string(is.Phase) + "/" + is.Reason + "/" + is.Message))
	return d.Name + "." + hex.EncodeToString(sum[:8])
}

// reportingController of the events that managers write, and how long their notes are, in bytes.
const (
	reportingController = v1.GroupName + "/vm-manager"
	longestNote         = 1000
)
