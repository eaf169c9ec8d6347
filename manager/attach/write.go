package attach

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// owner of the fields that the manager writes.
const owner = client.FieldOwner("vm-operator")

// create creates an object from a configuration.
func (c *Controller) create(ctx context.Context, configuration any, object client.Object) error {
	text, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return err
	}
	return c.opts.Client.Create(ctx, object, owner)
}

// hold keeps an attachment from going until the guest has let go of the disk.
func (r *round) hold(a *v1.VirtualMachineBlockDeviceAttachment) error {
	if a == nil || slices.Contains(a.Finalizers, v1.AttachmentFinalizer) || a.DeletionTimestamp != nil {
		return nil
	}
	return r.finalizers(a, append(slices.Clone(a.Finalizers), v1.AttachmentFinalizer))
}

// release lets a deleted attachment go.
func (r *round) release(a *v1.VirtualMachineBlockDeviceAttachment) error {
	if !slices.Contains(a.Finalizers, v1.AttachmentFinalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == v1.AttachmentFinalizer })
	return r.finalizers(a, rest)
}

// finalizers writes those of an attachment unless it has changed since it was read.
func (r *round) finalizers(a *v1.VirtualMachineBlockDeviceAttachment, all []string) error {
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": a.ResourceVersion, "uid": a.UID, "finalizers": all},
	})
	if err != nil {
		return err
	}
	next := &v1.VirtualMachineBlockDeviceAttachment{}
	next.Name, next.Namespace = a.Name, r.opts.Namespace
	if err := r.opts.Client.Patch(r.ctx, next, client.RawPatch(types.MergePatchType, text), owner); err != nil {
		return fmt.Errorf("write the finalizers of the attachment %s: %w", a.Name, err)
	}
	next.DeepCopyInto(a)
	if len(all) == 0 && a.DeletionTimestamp != nil {
		return nil // it is gone
	}
	return r.book.Learn(next)
}

// write writes the status of an attachment unless it has changed since it was read.
func (r *round) write(
	a *v1.VirtualMachineBlockDeviceAttachment, is v1.VirtualMachineBlockDeviceAttachmentStatus,
) error {
	text, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": a.ResourceVersion},
		{"op": "add", "path": "/status", "value": is},
	})
	if err != nil {
		return err
	}
	next := &v1.VirtualMachineBlockDeviceAttachment{}
	next.Name, next.Namespace = a.Name, r.opts.Namespace
	err = r.opts.Client.Status().Patch(r.ctx, next, client.RawPatch(types.JSONPatchType, text), owner)
	if err != nil {
		return fmt.Errorf("write the status of the attachment %s: %w", a.Name, err)
	}
	return r.book.Learn(next)
}

// event writes an event about what an attachment has become. That it could not be written keeps
// nothing else from being done.
func (r *round) event(a *v1.VirtualMachineBlockDeviceAttachment, is v1.VirtualMachineBlockDeviceAttachmentStatus) {
	sum := sha256.Sum256([]byte(string(a.UID) + "/" + a.ResourceVersion + "/" + string(is.Phase) + "/" + is.Reason))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.Name + "." + hex.EncodeToString(sum[:8]), Namespace: r.opts.Namespace,
		},
		EventTime:           metav1.NewMicroTime(r.opts.Now()),
		ReportingController: reportingController, ReportingInstance: cmp.Or(r.opts.Instance, objects.ManagerName),
		Type: corev1.EventTypeNormal, Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase),
		Note: decide.Shorten(cmp.Or(is.Message, "the VirtualDisk "+a.Spec.BlockDeviceRef.Name+" is attached to the VM "+
			a.Spec.VirtualMachineName), longestNote),
		Regarding: corev1.ObjectReference{
			APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachineBlockDeviceAttachment",
			Namespace: r.opts.Namespace, Name: a.Name, UID: a.UID,
		},
	}
	if is.Phase == v1.AttachmentFailed {
		e.Type = corev1.EventTypeWarning
	}
	if err := r.opts.Client.Create(r.ctx, e, owner); err != nil && !apierrors.IsAlreadyExists(err) {
		log.FromContext(r.ctx).Error(err, "event not written", "reason", e.Reason, "note", e.Note)
	}
}

// reportingController of the events that managers write, and how long their notes are, in bytes.
const (
	reportingController = v1.GroupName + "/vm-manager"
	longestNote         = 1000
)
