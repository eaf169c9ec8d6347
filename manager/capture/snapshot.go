package capture

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
)

// Reconcile does what there is to do for a snapshot.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	unknown, noVolumes := c.book.Unavailable()
	if unknown != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	of := c.book.Snapshot(request.Name)
	c.forget(request.Name, of)
	if of == nil {
		return reconcile.Result{}, nil
	}
	again, err := c.serve(ctx, of, noVolumes)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil // the watch is about to bring something else
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// serve makes a snapshot, as far as possible, and says in its status how far.
func (c *Controller) serve(ctx context.Context, of *v1.VirtualDiskSnapshot, noVolumes string) (
	again time.Duration, err error,
) {
	s := snapshot.Situation{
		Snapshot: of, Volume: snapshot.VolumeOf(c.book.Volume(of.Name)), Now: c.opts.Now(),
	}
	if s.Disk, err = c.opts.Disks.Disk(of.Spec.VirtualDiskName); err != nil {
		return 0, err
	}
	s.Capturing, s.Outcome, again = c.attempted(of)
	if noVolumes != "" && s.Volume == nil && s.Outcome == nil {
		s.Outcome, again = &snapshot.Outcome{Reason: snapshot.ReasonUnsupported, Message: unsupported}, unlistedRetry
	}
	switch snapshot.Next(s) {
	case snapshot.Confirm:
		if s.Gone, err = c.isGone(ctx, of); err != nil || !s.Gone {
			return goneRetry, err
		}
	case snapshot.Remove:
		if err := c.publish(ctx, of, snapshot.StatusOf(s)); err != nil { // why, before it is gone
			return 0, err
		}
		return 0, c.remove(ctx, of, s.Volume.UID)
	case snapshot.Capture:
		s.Capturing = true
		if err := c.publish(ctx, of, snapshot.StatusOf(s)); err != nil {
			return 0, err
		}
		c.begin(ctx, of, s.Disk)
		return 0, nil
	case snapshot.Nothing:
	}
	return again, c.publish(ctx, of, snapshot.StatusOf(s))
}

// unsupported is why there are no snapshots.
const unsupported = "the cluster has no VolumeSnapshots, or the manager may not see them: what it takes is a CSI driver that " +
	"makes snapshots, with the definitions and the controller of Kubernetes' external-snapshotter"

// attempted returns how far this process is with a snapshot.
func (c *Controller) attempted(of *v1.VirtualDiskSnapshot) (runs bool, came *snapshot.Outcome, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.attempts[of.UID]
	switch now := c.opts.Now(); {
	case a == nil:
		return false, nil, 0
	case a.outcome == nil:
		return true, nil, 0
	case !a.outcome.Made() && !now.Before(a.until):
		delete(c.attempts, of.UID)
		return false, nil, 0
	case !a.outcome.Made():
		return false, a.outcome, a.until.Sub(now)
	}
	return false, a.outcome, 0
}

// forget drops what is known of attempts for earlier snapshots of a name, and for one whose status
// has all.
func (c *Controller) forget(name string, is *v1.VirtualDiskSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, a := range c.attempts {
		if a.name == name && a.outcome != nil && (is == nil || is.UID != uid || is.Status.Consistent != nil) {
			delete(c.attempts, uid)
		}
	}
}

// begin attempts to make the VolumeSnapshot.
func (c *Controller) begin(ctx context.Context, of *v1.VirtualDiskSnapshot, d *v1.VirtualDisk) {
	a := &attempt{name: of.Name}
	c.mu.Lock()
	c.attempts[of.UID] = a
	c.mu.Unlock()
	go func() {
		// Not by the context of a reconciliation, which ends: what has begun is ended within the
		// time limit, unless the process ends.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTime)
		defer cancel()
		came := c.attempt(ctx, of, d)
		c.mu.Lock()
		a.outcome, a.until = &came, c.opts.Now().Add(refusedRetry)
		if came.Reason == snapshot.ReasonBusy {
			a.until = c.opts.Now().Add(busyRetry)
		}
		c.mu.Unlock()
		c.enqueue(of.Name)
	}()
}

// isGone reports whether the VolumeSnapshot is certainly gone that the status names.
func (c *Controller) isGone(ctx context.Context, of *v1.VirtualDiskSnapshot) (bool, error) {
	is, err := c.volume(ctx, of)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && is.GetUID() != of.Status.VolumeSnapshotUID, err
}

// volume reads the VolumeSnapshot of a snapshot.
func (c *Controller) volume(ctx context.Context, of *v1.VirtualDiskSnapshot) (*unstructured.Unstructured, error) {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: snapshot.VolumeName(of.Name)}, is)
	return is, err
}

// remove deletes the VolumeSnapshot of a snapshot.
func (c *Controller) remove(ctx context.Context, of *v1.VirtualDiskSnapshot, uid types.UID) error {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(snapshot.VolumeKind)
	is.SetNamespace(of.Namespace)
	is.SetName(snapshot.VolumeName(of.Name))
	return client.IgnoreNotFound(c.opts.Client.Delete(ctx, is, client.Preconditions{UID: &uid}))
}

// publish writes the status of a snapshot, if it differs, and an event if that is worth one.
func (c *Controller) publish(ctx context.Context, of *v1.VirtualDiskSnapshot, is v1.VirtualDiskSnapshotStatus) error {
	was := of.Status
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	if err := c.write(ctx, of, is); err != nil {
		return err
	}
	if is.Phase != was.Phase {
		c.event(ctx, of, is)
	}
	return nil
}
