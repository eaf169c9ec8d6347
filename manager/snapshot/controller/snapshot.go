package controller

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

// Reconcile performs the next step for a snapshot.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	unknown, noVolumes := c.book.Unavailable()
	if unknown != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	of := c.book.Snapshot(request.Name)
	c.attempts.forgetEnded(request.Name, func(uid types.UID) bool {
		return of != nil && of.UID == uid && of.Status.Consistent == nil
	})
	if of == nil {
		return reconcile.Result{}, nil
	}
	again, err := c.serveSnapshot(ctx, of, noVolumes)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil // the watch will deliver a newer version
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// serveSnapshot creates a snapshot, as far as possible, and writes the progress to its status.
func (c *Controller) serveSnapshot(ctx context.Context, of *v1.VirtualDiskSnapshot, noVolumes string) (
	again time.Duration, err error,
) {
	s := snapshot.Situation{
		Snapshot: of, Volume: snapshot.VolumeOf(c.book.Volume(of.Name)), Now: c.opts.Now(),
	}
	if s.Disk, err = c.opts.Disks.Disk(of.Spec.VirtualDiskName); err != nil {
		return 0, err
	}
	s.Capturing, s.Outcome, again = c.attempts.attemptOf(of.UID)
	if noVolumes != "" && s.Volume == nil && s.Outcome == nil {
		s.Outcome, again = &snapshot.Outcome{Reason: snapshot.ReasonUnsupported, Message: unsupported}, unlistedRetry
	}
	switch snapshot.Next(s) {
	case snapshot.Confirm:
		if s.Gone, err = c.isVolumeSnapshotGone(ctx, of); err != nil || !s.Gone {
			return goneRetry, err
		}
	case snapshot.Remove:
		if err := c.publishSnapshot(ctx, of, snapshot.StatusOf(s)); err != nil { // publish the reason first
			return 0, err
		}
		return 0, c.removeSnapshot(ctx, snapshot.VolumeName(of.Name), s.Volume.UID)
	case snapshot.Capture:
		s.Capturing = true
		if err := c.publishSnapshot(ctx, of, snapshot.StatusOf(s)); err != nil {
			return 0, err
		}
		c.attempts.beginAttempt(ctx, of, func(ctx context.Context) snapshot.Outcome {
			return c.attemptSnapshot(ctx, of,
				s.Disk)
		},
			func() { c.requests.Enqueue(of.Name) })
		return 0, nil
	case snapshot.Nothing:
	}
	return again, c.publishSnapshot(ctx, of, snapshot.StatusOf(s))
}

// unsupported is the reason why snapshots are unavailable.
const unsupported = "the cluster has no VolumeSnapshots, or the manager may not see them: what it takes is a CSI driver that " +
	"makes snapshots, with the definitions and the controller of Kubernetes' external-snapshotter"

// isVolumeSnapshotGone reports whether the VolumeSnapshot in the status is certainly gone.
func (c *Controller) isVolumeSnapshotGone(ctx context.Context, of *v1.VirtualDiskSnapshot) (bool, error) {
	return c.isObjectGone(ctx, snapshot.VolumeName(of.Name), of.Status.VolumeSnapshotUID)
}

// isObjectGone reports whether a VolumeSnapshot is certainly gone.
func (c maker) isObjectGone(ctx context.Context, name string, uid types.UID) (bool, error) {
	is, err := c.readSnapshot(ctx, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && is.GetUID() != uid, err
}

// publishSnapshot writes the status of a snapshot if it differs, and an event if the phase has changed.
func (c *Controller) publishSnapshot(ctx context.Context, of *v1.VirtualDiskSnapshot,
	is v1.VirtualDiskSnapshotStatus,
) error {
	was := of.Status
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	if err := c.writeSnapshotStatus(ctx, of, is); err != nil {
		return err
	}
	if is.Phase != was.Phase {
		c.recordEvent(ctx, of, "VirtualDiskSnapshot", said{is.Phase, is.Reason, is.Message})
	}
	return nil
}
