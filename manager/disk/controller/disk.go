package controller

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Reconcile takes the next steps for a disk.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if c.whyUnavailable() != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	d, err := c.book.Disk(request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := c.reconcileDisk(ctx, request.Name, d)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil // the watch is about to deliver a change
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// reconcileDisk takes the next steps for the disk with this name; d is nil if it doesn't exist.
func (c *Controller) reconcileDisk(ctx context.Context, name string, d *v1.VirtualDisk) (again time.Duration,
	err error,
) {
	if c == c.images {
		if again, err = c.followImage(ctx, name, d); err != nil || d == nil && again > 0 {
			return again, err
		}
	}
	if d == nil {
		c.forgetRefusal(name)
		c.fetched.forgetDisk(name)
		return 0, nil
	}
	if vm := disk.Holder(d); vm != "" {
		if is, err := c.opts.VMs.VM(vm); is == nil && err == nil {
			c.opts.VMs.EnqueueAny(vm) // it then releases the disk
		}
	}
	again, err = c.serveDisk(ctx, d)
	if err == nil && len(d.Status.CopiedBy) > 0 {
		again, err = soonerOf(again, sourceRetry), c.releaseCopies(ctx, d.Name)
	}
	return again, err
}

// serveDisk brings a disk closer to its spec, and records the state in its status.
func (c *Controller) serveDisk(ctx context.Context, d *v1.VirtualDisk) (again time.Duration, err error) {
	s := disk.Situation{Disk: d, Now: c.opts.Now()}
	if s.Claim, err = c.claimOfDisk(d); err != nil {
		return 0, err
	}
	s.Classes = c.book.Class(className(d, s.Claim))
	if again, err = c.observeImport(ctx, &s); err != nil {
		return 0, err
	}
	refused, wait := c.recentRefusal(d)
	s.Refused = refused
	switch step := disk.Next(s); {
	case step == disk.Confirm:
		if s.Gone, err = c.isClaimGone(ctx, d); err != nil || !s.Gone {
			return goneRetry, err
		}
	case s.Claim != nil && !metav1.IsControlledBy(s.Claim, d):
		again = refusedRetry // no watch reports its deletion
	case refused != nil:
		again = wait
	case step == disk.Create:
		s.Claim, err = c.createClaim(ctx, d, s.Source)
	case step == disk.Grow:
		s.Claim, err = c.growClaim(ctx, d, s.Claim)
	default:
		err = c.stepImport(ctx, step, &s)
	}
	if err != nil {
		if s.Refused = refusalOf(err); s.Refused == nil {
			return 0, err
		}
		c.rememberRefusal(d, *s.Refused)
		again = refusedRetry
	}
	later, err := c.stepExport(ctx, &s)
	if err != nil {
		return 0, err
	}
	is := disk.StatusOf(s)
	return soonerOf(soonerOf(again, later), untilRetry(is, s.Now)), c.publishDisk(ctx, d, is)
}

// claimOfDisk returns the claim with a disk's name. If it isn't a disk's claim, the result contains only metadata.
func (c *Controller) claimOfDisk(of *v1.VirtualDisk) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.book.Claim(of.Name)
	if claim != nil || err != nil {
		return claim, err
	}
	other, err := c.opts.VMs.Metadata(objects.KindClaim, disk.ClaimOf(of))
	if other == nil || err != nil || disk.Owner(other) == of.Name {
		return nil, err // the watch of disks' claims is about to deliver it, or its deletion
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: other.ObjectMeta}, nil
}

// className returns the storage class in the disk's claim, or the requested class; "" means the default class.
func className(d *v1.VirtualDisk, claim *corev1.PersistentVolumeClaim) string {
	if claim != nil && claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	if name := d.Spec.PersistentVolumeClaim.StorageClassName; name != nil {
		return *name
	}
	return ""
}

// isClaimGone reports whether the claim in a disk's status is definitely gone. It asks the API server, because the
// watch of claims may lag behind the watch of disks.
func (c *Controller) isClaimGone(ctx context.Context, d *v1.VirtualDisk) (bool, error) {
	var claim corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: c.opts.Namespace, Name: disk.ClaimOf(d)}
	err := c.opts.Live.Get(ctx, key, &claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && claim.UID != d.Status.Target.UID, err
}

// refusalOf returns the refusal to show to the disk's user for an error; nil if the write is simply repeated.
func refusalOf(err error) *disk.Refusal {
	o, stalled := decide.Refused(err).(decide.Stalled)
	switch {
	case errors.As(err, new(errTaken)):
		return &disk.Refusal{Reason: disk.ReasonPodTaken, Message: err.Error()}
	case !stalled:
		return nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return &disk.Refusal{
			Reason: disk.ReasonQuota, Message: o.Message + "; it is tried again every minute: delete what is no " +
				"longer needed, or ask the administrator for a larger quota (kubectl describe quota)",
		}
	}
	return &disk.Refusal{Reason: disk.ReasonRefused, Message: o.Message}
}

// recentRefusal returns the API server's recent refusal for a disk, and how long it stays valid.
func (c *Controller) recentRefusal(d *v1.VirtualDisk) (*disk.Refusal, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.refused[d.Name]
	if !known || last.uid != d.UID || last.generation != d.Generation || !c.opts.Now().Before(last.until) {
		delete(c.refused, d.Name)
		return nil, 0
	}
	return &last.Refusal, last.until.Sub(c.opts.Now())
}

func (c *Controller) rememberRefusal(d *v1.VirtualDisk, why disk.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[d.Name] = refusal{why, d.UID, d.Generation, c.opts.Now().Add(refusedRetry)}
}

func (c *Controller) forgetRefusal(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, name)
	delete(c.seen, name)
}

// publishDisk writes a changed status of a disk, and an event if the phase or reason changed.
func (c *Controller) publishDisk(ctx context.Context, d *v1.VirtualDisk, is v1.VirtualDiskStatus) error {
	if equality.Semantic.DeepEqual(d.Status, is) {
		return nil
	}
	was := d.Status
	if err := c.writeStatus(ctx, d, is); err != nil {
		return err
	}
	if is.Phase != was.Phase || is.Reason != was.Reason {
		c.recordEvent(ctx, d, is)
	}
	return nil
}
