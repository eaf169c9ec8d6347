package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/publish"
)

// owner of the fields that the manager writes.
const owner = publish.Owner

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
	next := &v1.VirtualMachineBlockDeviceAttachment{}
	next.Name, next.Namespace = a.Name, r.opts.Namespace
	if err := publish.Status(r.ctx, r.opts.Client, a, next, is); err != nil {
		return fmt.Errorf("write the status of the attachment %s: %w", a.Name, err)
	}
	return r.book.Learn(next)
}

// event writes an event about what an attachment has become. That it could not be written keeps
// nothing else from being done.
func (r *round) event(a *v1.VirtualMachineBlockDeviceAttachment, is v1.VirtualMachineBlockDeviceAttachmentStatus) {
	of := a.Spec.BlockDeviceRef
	attached := "the " + string(of.Kind) + " " + of.Name + " is attached to the VM " + a.Spec.VirtualMachineName
	publish.Write(r.ctx, r.opts.Client, publish.Event{
		Kind: "VirtualMachineBlockDeviceAttachment", Key: a.ResourceVersion + "/" + string(is.Phase) + "/" + is.Reason,
		Reason: cmp.Or(is.Reason, string(is.Phase)), Action: string(is.Phase), Warning: is.Phase == v1.AttachmentFailed,
		Note: decide.Shorten(cmp.Or(is.Message, attached), publish.LongestNote),
	}.Of(a, r.opts.Now(), r.opts.Instance))
}
