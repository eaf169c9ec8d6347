package controller

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// concludeAttachment writes the status of an attachment, or releases a deleted attachment.
func (r *round) concludeAttachment(a *v1.VirtualMachineBlockDeviceAttachment, s attachment.Situation,
	p attachment.Plan,
) {
	var err error
	if p.Done && a.DeletionTimestamp != nil {
		err = r.releaseAttachment(a)
	} else if is := statusOf(a, s, p, r.opts.Now()); !equality.Semantic.DeepEqual(a.Status, is) {
		was := a.Status
		if err = r.writeStatus(a, is); err == nil && (was.Phase != is.Phase || was.Reason != is.Reason) {
			r.recordEvent(a, is)
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		r.did.RetryAt(r.opts.Now().Add(conflictRetry)) // the watch will deliver a newer version
		return
	}
	r.did.Err = errors.Join(r.did.Err, err)
}

// statusOf returns the status of an attachment.
func statusOf(a *v1.VirtualMachineBlockDeviceAttachment, s attachment.Situation, p attachment.Plan, now time.Time,
) v1.VirtualMachineBlockDeviceAttachmentStatus {
	is := v1.VirtualMachineBlockDeviceAttachmentStatus{
		Phase: p.Phase, Reason: p.Reason, Message: decide.Shorten(p.Message, decide.MaxMessage),
		VirtualMachineName: s.VMName, ObservedGeneration: a.Generation,
	}
	if is.Phase == attachment.Attached {
		is.Reason = "" // no reason needed
	}
	set := func(kind string, holds bool, reason, message string) {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: a.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		if holds {
			c.Status, c.Message = metav1.ConditionTrue, ""
		}
		if was := meta.FindStatusCondition(a.Status.Conditions, kind); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		is.Conditions = append(is.Conditions, c)
	}
	what, reason, message := s.Available()
	if what == disk.Has || what == disk.Take {
		reason = "Ready"
	}
	set(v1.AttachmentConditionDevice, what == disk.Has || what == disk.Take, reason, message)
	switch {
	case s.VM == nil:
		set(v1.AttachmentConditionVM, false, attachment.ReasonVMMissing, "there is no VM "+s.VMName)
	case !s.HasPod:
		set(v1.AttachmentConditionVM, false, attachment.ReasonVMStopped, "the VM "+s.VMName+" is not running")
	default:
		set(v1.AttachmentConditionVM, true, "Running", "")
	}
	set(v1.AttachmentConditionAttached, p.Phase == attachment.Attached, p.Reason, is.Message)
	return is
}

// statusRef returns the entry for the disk in the VM's status.
func (o *one) statusRef() v1.BlockDeviceStatusRef {
	ref := v1.BlockDeviceStatusRef{
		Kind: v1.BlockDeviceKind(o.Ref.Kind), Name: o.Ref.Name, Hotplugged: true, Serial: objects.AttachedSerial(o.Ref),
		Attached: o.Drive.State == attachment.DriveAttached || o.Drive.State == attachment.DriveDetaching,
	}
	if o.Disk != nil {
		ref.Size = o.Disk.Status.Capacity
	}
	if o.first != nil {
		ref.VirtualMachineBlockDeviceAttachmentName = o.first.Name
	}
	return ref
}
