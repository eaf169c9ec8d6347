package capture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/snapshot"
	"vmop/runner/control"
)

// Times of an attempt.
const (
	freezeTime  = 30 * time.Second // that the guest's file systems are frozen at most
	thawMargin  = time.Second      // of it, for the answer's way
	attemptTime = freezeTime + 45*time.Second
	pollTime    = 100 * time.Millisecond
)

// refuse returns the outcome of an attempt that is made again later.
func refuse(reason, format string, args ...any) snapshot.Outcome {
	return snapshot.Outcome{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// attempt makes the VolumeSnapshot of a snapshot while nothing is written to the disk, if that can be
// had. Whether the API server would take it is asked before a guest is frozen for it.
func (c *Controller) attempt(ctx context.Context, of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk) snapshot.Outcome {
	class, why := c.class(ctx, of, d)
	if why != nil {
		return *why
	}
	volume := newVolume(of, d, class)
	if err := c.opts.Client.Create(ctx, volume.DeepCopy(), client.DryRunAll, owner); err != nil {
		return refusal(err)
	}
	frozen, why := c.freeze(ctx, of, d)
	if why != nil {
		return *why
	}
	if err := c.opts.Client.Create(ctx, volume, owner); err != nil {
		frozen.end(ctx)
		return refusal(err)
	}
	shows := c.shown(ctx, of, frozen.until)
	lasted := frozen.end(ctx)
	came := snapshot.Outcome{Message: frozen.why}
	switch {
	case frozen.why != "":
	case !shows:
		came.Message = "the storage has not made the snapshot while the guest's file systems were frozen"
	case frozen.guest != nil && !lasted:
		came.Message = "the guest's file systems were thawed before the snapshot was made"
	case frozen.guest == nil && !c.undisturbed(ctx, d):
		came.Message = "a VM got the disk while the snapshot was made"
	default:
		came.Consistent = true
	}
	return came
}

// class returns the VolumeSnapshotClass for a disk, or why there is none.
func (c *Controller) class(ctx context.Context, of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk) (
	name string, why *snapshot.Outcome,
) {
	fail := func(o snapshot.Outcome) (string, *snapshot.Outcome) { return "", &o }
	var claim corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: of.Namespace, Name: d.Status.Target.PersistentVolumeClaimName}
	if err := c.opts.Live.Get(ctx, key, &claim); err != nil {
		return fail(refusal(err))
	}
	if claim.UID != d.Status.Target.UID || claim.Spec.StorageClassName == nil {
		return fail(refuse(snapshot.ReasonDiskNotReady, "the claim %s of the disk has no storage class", claim.Name))
	}
	var storage storagev1.StorageClass
	if err := c.opts.Live.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &storage); err != nil {
		return fail(refusal(err))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(snapshot.ClassKind.GroupVersion().WithKind(snapshot.ClassKind.Kind + "List"))
	if err := c.opts.Live.List(ctx, list); err != nil {
		return fail(refusal(err))
	}
	var all []snapshot.Class
	for i := range list.Items {
		all = append(all, snapshot.ClassOf(&list.Items[i]))
	}
	class, reason, message := snapshot.ChooseClass(all, of.Spec.VolumeSnapshotClassName, storage.Provisioner)
	if class == "" {
		return fail(refuse(reason, "%s", message))
	}
	return class, nil
}

// frozen is a disk to which nothing is written until a time, or why that can't be had.
type frozen struct {
	guest Guest // nil: no VM has the disk
	until time.Time
	why   string // things may be written; "" if not
}

// freeze keeps the VM that has a disk from writing to it.
func (c *Controller) freeze(ctx context.Context, of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk) (
	f frozen, why *snapshot.Outcome,
) {
	f.until = time.Now().Add(freezeTime - thawMargin)
	name := disk.Holder(d)
	if name == "" {
		return f, nil
	}
	vm, err := c.opts.VMs.VM(name)
	if err != nil {
		return f, new(refusal(err))
	}
	pod, err := c.opts.VMs.Pod(name)
	if err != nil {
		return f, new(refusal(err))
	}
	if vm == nil || pod == nil {
		return f, new(refuse(snapshot.ReasonBusy, "the VM %s, which has the disk, is starting or ending: the snapshot is made "+
			"afterwards", name))
	}
	guest, err := c.opts.Guest(vm, pod)
	if err == nil {
		answer, freezeErr := guest.Freeze(ctx, freezeTime)
		var refused *control.AnswerError
		switch {
		case errors.As(freezeErr, &refused) && refused.Code == http.StatusConflict:
			return f, new(refuse(snapshot.ReasonBusy, "the VM %s: %s", name, refused.Message))
		case freezeErr == nil && answer.Frozen:
			f.guest = guest
			return f, nil
		case freezeErr == nil:
			f.why = strings.TrimPrefix(answer.Message, "not frozen: crash-consistent, because ")
		}
		err = freezeErr
	}
	if err != nil {
		f.why = err.Error()
	}
	f.why = fmt.Sprintf("the VM %s is running, and its file systems are not frozen: %s", name, f.why)
	if of.Spec.RequiredConsistency {
		return f, new(refuse(snapshot.ReasonNotConsistent, "%s; it is asked for a consistent one "+
			"(spec.requiredConsistency): stop the VM, or have QEMU's guest agent in it", f.why))
	}
	return f, nil
}

// end thaws the guest, and reports whether it was frozen until then.
func (f frozen) end(ctx context.Context) bool {
	if f.guest == nil {
		return true
	}
	// Also if time is up: the runner would wait for its limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeTime)
	defer cancel()
	answer, err := f.guest.Thaw(ctx)
	return err == nil && answer.FileSystems > 0
}

// shown waits until the VolumeSnapshot shows a moment, which is before a time.
func (c *Controller) shown(ctx context.Context, of *v1.VirtualDiskSnapshot, until time.Time) bool {
	for time.Now().Before(until) && ctx.Err() == nil {
		is, err := c.volume(ctx, of)
		if err == nil && snapshot.VolumeOf(is).Created != nil {
			return time.Now().Before(until)
		}
		if apierrors.IsNotFound(err) {
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollTime):
		}
	}
	return false
}

// undisturbed reports whether no VM has had a disk since it was read.
func (c *Controller) undisturbed(ctx context.Context, was *v1.VirtualDisk) bool {
	var is v1.VirtualDisk
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: was.Name}, &is)
	return err == nil && snapshot.Undisturbed(was, &is)
}
