package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
)

// owner is the owner of the fields that the manager writes.
const owner = publish.Owner

// createFrom creates an object from a configuration.
func (c *Controller) createFrom(ctx context.Context, configuration any, object client.Object) error {
	text, err := json.Marshal(configuration)
	if err == nil {
		err = json.Unmarshal(text, object)
	}
	if err != nil {
		return err
	}
	return c.opts.Client.Create(ctx, object, owner)
}

// holdAttachment prevents the deletion of an attachment until the guest has released the disk.
func (r *round) holdAttachment(a *v1.VirtualMachineBlockDeviceAttachment) error {
	if a == nil || slices.Contains(a.Finalizers, v1.AttachmentFinalizer) || a.DeletionTimestamp != nil {
		return nil
	}
	return r.writeFinalizers(a, append(slices.Clone(a.Finalizers), v1.AttachmentFinalizer))
}

// releaseAttachment allows the deletion of an attachment.
func (r *round) releaseAttachment(a *v1.VirtualMachineBlockDeviceAttachment) error {
	if !slices.Contains(a.Finalizers, v1.AttachmentFinalizer) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == v1.AttachmentFinalizer })
	return r.writeFinalizers(a, rest)
}

// writeFinalizers writes the finalizers of an attachment. It fails if the attachment has changed since it was read.
func (r *round) writeFinalizers(a *v1.VirtualMachineBlockDeviceAttachment, all []string) error {
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

// writeStatus writes the status of an attachment. It fails if the attachment has changed since it was read.
func (r *round) writeStatus(
	a *v1.VirtualMachineBlockDeviceAttachment, is v1.VirtualMachineBlockDeviceAttachmentStatus,
) error {
	next := &v1.VirtualMachineBlockDeviceAttachment{}
	next.Name, next.Namespace = a.Name, r.opts.Namespace
	if err := publish.Status(r.ctx, r.opts.Client, a, next, is); err != nil {
		return fmt.Errorf("write the status of the attachment %s: %w", a.Name, err)
	}
	return r.book.Learn(next)
}

// recordEvent writes an event about the new state of an attachment. A failure to write it does not stop other work.
func (r *round) recordEvent(a *v1.VirtualMachineBlockDeviceAttachment,
	is v1.VirtualMachineBlockDeviceAttachmentStatus,
) {
	of := a.Spec.BlockDeviceRef
	attached := "the " + string(of.Kind) + " " + of.Name + " is attached to the VM " + a.Spec.VirtualMachineName
	publish.Write(r.ctx, r.opts.Client, publish.Event{
		Kind: "VirtualMachineBlockDeviceAttachment", Key: a.ResourceVersion + "/" + string(is.Phase) + "/" + is.Reason,
		Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase), Warning: is.Phase == v1.AttachmentFailed,
		Note: decide.Shorten(cmp.Or(is.Message, attached), publish.LongestNote),
	}.Of(a, r.opts.Now(), r.opts.Instance))
}
