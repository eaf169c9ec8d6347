package capture

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	c.attempts.forget(request.Name, func(uid types.UID) bool {
		return of != nil && of.UID == uid && of.Status.Consistent == nil
	})
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
	s.Capturing, s.Outcome, again = c.attempts.of(of.UID)
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
		return 0, c.remove(ctx, snapshot.VolumeName(of.Name), s.Volume.UID)
	case snapshot.Capture:
		s.Capturing = true
		if err := c.publish(ctx, of, snapshot.StatusOf(s)); err != nil {
			return 0, err
		}
		c.attempts.begin(ctx, of, func(ctx context.Context) snapshot.Outcome { return c.attempt(ctx, of, s.Disk) },
			func() { c.enqueue(of.Name) })
		return 0, nil
	case snapshot.Nothing:
	}
	return again, c.publish(ctx, of, snapshot.StatusOf(s))
}

// unsupported is why there are no snapshots.
const unsupported = "the cluster has no VolumeSnapshots, or the manager may not see them: what it takes is a CSI driver that " +
	"makes snapshots, with the definitions and the controller of Kubernetes' external-snapshotter"

// isGone reports whether the VolumeSnapshot is certainly gone that the status names.
func (c *Controller) isGone(ctx context.Context, of *v1.VirtualDiskSnapshot) (bool, error) {
	return c.gone(ctx, snapshot.VolumeName(of.Name), of.Status.VolumeSnapshotUID)
}

// gone reports whether a VolumeSnapshot is certainly gone.
func (c maker) gone(ctx context.Context, name string, uid types.UID) (bool, error) {
	is, err := c.volume(ctx, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && is.GetUID() != uid, err
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
		c.event(ctx, of, "VirtualDiskSnapshot", said{is.Phase, is.Reason, is.Message})
	}
	return nil
}
