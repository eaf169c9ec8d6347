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
	"k8s.io/apimachinery/pkg/types"
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
	class, _, why := c.class(ctx, d.Status.Target.PersistentVolumeClaimName, d.Status.Target.UID, asked{
		"spec.volumeSnapshotClassName", func(string) string { return of.Spec.VolumeSnapshotClassName },
	})
	if why != nil {
		return *why
	}
	volume := newVolume(of, d, class)
	if err := c.opts.Client.Create(ctx, volume.DeepCopy(), client.DryRunAll, owner); err != nil {
		return refusal(err)
	}
	frozen, why := c.freeze(ctx, disk.Holder(d), of.Spec.RequiredConsistency)
	if why != nil {
		return *why
	}
	if err := c.opts.Client.Create(ctx, volume, owner); err != nil {
		frozen.end(ctx)
		return refusal(err)
	}
	shows := c.shown(ctx, frozen.until, snapshot.VolumeName(of.Name))
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

// asked are the classes of VolumeSnapshots that are asked for in a field, by storage classes; "" for none.
type asked struct {
	field string
	of    func(storageClass string) string
}

// class returns the VolumeSnapshotClass for a claim, and the claim, or why there is none.
func (c maker) class(ctx context.Context, name string, uid types.UID, asked asked) (
	class string, claim corev1.PersistentVolumeClaim, why *snapshot.Outcome,
) {
	fail := func(o snapshot.Outcome) (string, corev1.PersistentVolumeClaim, *snapshot.Outcome) {
		return "", claim, &o
	}
	if err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, &claim); err != nil {
		return fail(refusal(err))
	}
	if claim.UID != uid || claim.Spec.StorageClassName == nil {
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
	class, reason, message := snapshot.ChooseClass(all, asked.of(storage.Name), storage.Provisioner, asked.field)
	if class == "" {
		return fail(refuse(reason, "%s", message))
	}
	return class, claim, nil
}

// frozen are disks to which nothing is written until a time, or why that can't be had.
type frozen struct {
	guest Guest // nil: no VM has the disks
	until time.Time
	why   string // things may be written; "" if not
}

// freeze keeps the VM that has a disk from writing to it; "" if none has. required: it fails if the guest
// can't be frozen.
func (c maker) freeze(ctx context.Context, name string, required bool) (f frozen, why *snapshot.Outcome) {
	f.until = time.Now().Add(freezeTime - thawMargin)
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
	if vm.Status.Migration.Active() { // it may write to other volumes already
		return f, new(refuse(snapshot.ReasonBusy, "the guest of the VM %s is being moved: the snapshot is made "+
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
	if required {
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

// shown waits until each of the VolumeSnapshots shows a moment, which is before a time.
func (c maker) shown(ctx context.Context, until time.Time, names ...string) bool {
	for len(names) > 0 && time.Now().Before(until) && ctx.Err() == nil {
		is, err := c.volume(ctx, names[0])
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

// volume reads a VolumeSnapshot.
func (c maker) volume(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, is)
	return is, err
}

// remove deletes a VolumeSnapshot.
func (c maker) remove(ctx context.Context, name string, uid types.UID) error {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	is.SetNamespace(c.opts.Namespace)
	is.SetName(name)
	return client.IgnoreNotFound(c.opts.Client.Delete(ctx, is, client.Preconditions{UID: &uid}))
}

// undisturbed reports whether no VM has had a disk since it was read.
func (c maker) undisturbed(ctx context.Context, was *v1.VirtualDisk) bool {
	var is v1.VirtualDisk
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: was.Name}, &is)
	return err == nil && snapshot.Undisturbed(was, &is)
}
