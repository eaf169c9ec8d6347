package controller

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/snapshot"
	"vmop/runner/control"
)

// Time limits of an attempt.
const (
	freezeTime  = 30 * time.Second // for which the guest's file systems are frozen
	thawMargin  = time.Second      // part of it reserved for the answer
	attemptTime = freezeTime + 45*time.Second
	pollTime    = 100 * time.Millisecond
)

// refusedOutcome returns the outcome of an attempt that will be repeated later.
func refusedOutcome(reason, format string, args ...any) snapshot.Outcome {
	return snapshot.Outcome{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// attemptSnapshot creates the VolumeSnapshot of a snapshot while the disk is not being written, if possible. Before it
// freezes a guest, it asks the API server whether it would accept the VolumeSnapshot.
func (c *Controller) attemptSnapshot(ctx context.Context, of *v1.VirtualDiskSnapshot,
	d *v1.VirtualDisk,
) snapshot.Outcome {
	class, _, why := c.snapshotClass(ctx, d.Status.Target.PersistentVolumeClaimName, d.Status.Target.UID, asked{
		"spec.volumeSnapshotClassName", func(string) string { return of.Spec.VolumeSnapshotClassName },
	})
	if why != nil {
		return *why
	}
	volume := newVolume(of, d, class)
	if err := c.opts.Client.Create(ctx, volume.DeepCopy(), client.DryRunAll, owner); err != nil {
		return outcomeOfError(err)
	}
	frozen, why := c.freezeVM(ctx, disk.Holder(d), of.Spec.RequiredConsistency)
	if why != nil {
		return *why
	}
	if err := c.opts.Client.Create(ctx, volume, owner); err != nil {
		frozen.thawGuest(ctx)
		return outcomeOfError(err)
	}
	shows := c.awaitMoments(ctx, frozen.until, snapshot.VolumeName(of.Name))
	lasted := frozen.thawGuest(ctx)
	came := snapshot.Outcome{Message: frozen.why}
	switch {
	case frozen.why != "":
	case !shows:
		came.Message = "the storage did not create the snapshot while the guest's file systems were frozen"
	case frozen.guest != nil && !lasted:
		came.Message = "the guest's file systems were thawed before the snapshot was created"
	case frozen.guest == nil && !c.isUndisturbed(ctx, d):
		came.Message = "a VM started to use the disk while the snapshot was created"
	default:
		came.Consistent = true
	}
	return came
}

// asked is the field that can request VolumeSnapshotClasses, and the requested class by storage class; "" for no
// request.
type asked struct {
	field string
	of    func(storageClass string) string
}

// snapshotClass returns the VolumeSnapshotClass for a claim, and the claim, or the reason for a failure.
func (c maker) snapshotClass(ctx context.Context, name string, uid types.UID, asked asked) (
	class string, claim corev1.PersistentVolumeClaim, why *snapshot.Outcome,
) {
	fail := func(o snapshot.Outcome) (string, corev1.PersistentVolumeClaim, *snapshot.Outcome) {
		return "", claim, &o
	}
	if err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, &claim); err != nil {
		return fail(outcomeOfError(err))
	}
	if claim.UID != uid || claim.Spec.StorageClassName == nil {
		return fail(refusedOutcome(snapshot.ReasonDiskNotReady, "the claim %s of the disk has no storage class",
			claim.Name))
	}
	var storage storagev1.StorageClass
	if err := c.opts.Live.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &storage); err != nil {
		return fail(outcomeOfError(err))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(snapshot.ClassKind.GroupVersion().WithKind(snapshot.ClassKind.Kind + "List"))
	if err := c.opts.Live.List(ctx, list); err != nil {
		return fail(outcomeOfError(err))
	}
	var all []snapshot.Class
	for i := range list.Items {
		all = append(all, snapshot.ClassOf(&list.Items[i]))
	}
	class, reason, message := snapshot.ChooseClass(all, asked.of(storage.Name), storage.Provisioner, asked.field)
	if class == "" {
		return fail(refusedOutcome(reason, "%s", message))
	}
	return class, claim, nil
}

// frozen describes disks that are not written until a certain time, or why that is impossible.
type frozen struct {
	guest Guest // nil: no VM uses the disks
	until time.Time
	why   string // why writes are possible, or ""
}

// freezeVM prevents the VM with a disk from writing to it. name is "" if no VM uses the disk. If required is true,
// it fails if the guest can't be frozen.
func (c maker) freezeVM(ctx context.Context, name string, required bool) (f frozen, why *snapshot.Outcome) {
	f.until = time.Now().Add(freezeTime - thawMargin)
	if name == "" {
		return f, nil
	}
	vm, err := c.opts.VMs.VM(name)
	if err != nil {
		return f, new(outcomeOfError(err))
	}
	pod, err := c.opts.VMs.Pod(name)
	if err != nil {
		return f, new(outcomeOfError(err))
	}
	if vm == nil || pod == nil {
		return f, new(refusedOutcome(snapshot.ReasonBusy, "the VM %s, which uses the disk, is starting or stopping: the snapshot is created "+
			"afterwards", name))
	}
	if vm.Status.Migration.Active() { // it may already write to other volumes
		return f, new(refusedOutcome(snapshot.ReasonBusy, "the guest of the VM %s is migrating: the snapshot is created "+
			"afterwards", name))
	}
	guest, err := c.opts.Guest(vm, pod)
	if err == nil {
		answer, freezeErr := guest.Freeze(ctx, freezeTime)
		var refused *control.AnswerError
		switch {
		case errors.As(freezeErr, &refused) && refused.Code == http.StatusConflict:
			return f, new(refusedOutcome(snapshot.ReasonBusy, "the VM %s: %s", name, refused.Message))
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
	if required {
		return f, new(refusedOutcome(snapshot.ReasonNotConsistent, "%s; it is asked for a consistent one "+
			"(spec.requiredConsistency): stop the VM, or have QEMU's guest agent in it", f.why))
	}
	return f, nil
}

// thawGuest thaws the guest, and reports whether the guest has been frozen until now.
func (f frozen) thawGuest(ctx context.Context) bool {
	if f.guest == nil {
		return true
	}
	// Thaw even if the time is over, because the runner would wait for its own limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeTime)
	defer cancel()
	answer, err := f.guest.Thaw(ctx)
	return err == nil && answer.FileSystems > 0
}

// awaitMoments waits until each of the VolumeSnapshots has a creation time. It returns false if that takes longer than
// until.
func (c maker) awaitMoments(ctx context.Context, until time.Time, names ...string) bool {
	for len(names) > 0 && time.Now().Before(until) && ctx.Err() == nil {
		is, err := c.readSnapshot(ctx, names[0])
		switch {
		case err == nil && snapshot.VolumeOf(is).Created != nil:
			names = names[1:]
			continue
		case apierrors.IsNotFound(err):
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollTime):
		}
	}
	return len(names) == 0 && time.Now().Before(until)
}

// readSnapshot reads a VolumeSnapshot.
func (c maker) readSnapshot(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, is)
	return is, err
}

// removeSnapshot deletes a VolumeSnapshot.
func (c maker) removeSnapshot(ctx context.Context, name string, uid types.UID) error {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	is.SetNamespace(c.opts.Namespace)
	is.SetName(name)
	return client.IgnoreNotFound(c.opts.Client.Delete(ctx, is, client.Preconditions{UID: &uid}))
}

// isUndisturbed reports whether the disk has been unused by VMs since it was read.
func (c maker) isUndisturbed(ctx context.Context, was *v1.VirtualDisk) bool {
	var is v1.VirtualDisk
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: was.Name}, &is)
	return err == nil && snapshot.Undisturbed(was, &is)
}
