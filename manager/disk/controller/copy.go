package controller

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// originOf returns the disk, image or claim that a disk copies; nil if it doesn't exist, or is not known yet.
func (c *Controller) originOf(ctx context.Context, d *v1.VirtualDisk, copier *corev1.Pod) (*v1.VirtualDisk, error) {
	ref := d.Spec.DataSource.ObjectRef
	if ref.Kind == v1.KindClaim {
		return c.claimOrigin(ctx, d, copier)
	}
	kind, of := v1.BlockDeviceKind(ref.Kind), c.disks
	if kind.IsImage() {
		of = c.images
	}
	if of.whyUnavailable() != "" {
		return nil, nil
	}
	return c.diskNamed(kind, ref.Name)
}

// reserveOrigin locks the source disk against VMs before the copying pod can start. An image needs no lock, because it
// is read-only. For a claim, the status of the copy is the lock, and already contains the pod: see
// [Controller.waitForCopies].
func (c *Controller) reserveOrigin(ctx context.Context, s *disk.Situation) (may bool, err error) {
	source := s.Disk.Spec.DataSource.ObjectRef
	switch {
	case source == nil, source.Kind != string(v1.KindVirtualDisk) && source.Kind != v1.KindClaim:
		return true, nil
	case s.From == nil:
		return false, nil
	}
	is, may, why := disk.ForCopy(s.From, s.Disk, s.Pod.UID)
	if may || why != nil || source.Kind == v1.KindClaim {
		return why == nil, nil
	}
	err = c.disks.writeStatus(ctx, s.From, is)
	return err == nil, err
}

// releaseCopies makes a disk available to VMs again when the pods that copied it have ended. It asks the API server,
// because a watch may lag.
func (c *Controller) releaseCopies(ctx context.Context, name string) error {
	d, err := c.book.Disk(name)
	if d == nil || err != nil {
		return err
	}
	is := disk.Copied(d, func(by v1.DiskCopy) bool {
		ended, failed := c.hasPodEnded(ctx, disk.CopyPod(by), by.Pod)
		err = errors.Join(err, failed)
		return ended
	})
	if err != nil || len(is.CopiedBy) == len(d.Status.CopiedBy) {
		return err
	}
	err = c.writeStatus(ctx, d, is)
	return err
}

// hasPodEnded reports whether a pod has definitely ended or is gone.
func (c *Controller) hasPodEnded(ctx context.Context, name string, uid types.UID) (bool, error) {
	var pod corev1.Pod
	err := c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, &pod)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && disk.Ended(&pod, uid), err
}
