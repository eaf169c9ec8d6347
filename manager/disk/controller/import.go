package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// observeImport adds the state of the import to the situation of a disk. It returns when to look again, because no
// watch reports progress; 0 means never.
func (c *Controller) observeImport(ctx context.Context, s *disk.Situation) (again time.Duration, err error) {
	source := s.Disk.Spec.DataSource
	if source == nil {
		return 0, nil
	}
	ref := source.ObjectRef
	if ref != nil && disk.IsSnapshot(ref.Kind) {
		if s.Claim == nil || s.Disk.Status.Target.UID == "" {
			s.Source = c.opts.Snapshots.Source(*ref)
			again = sourceRetry
		}
		return again, nil
	}
	if s.Pod, err = c.book.Pod(s.Disk.Name); err != nil {
		return 0, err
	}
	if ref != nil && !disk.Whole(s.Disk) {
		if s.From, err = c.originOf(ctx, s.Disk, s.Pod); err != nil {
			return 0, err
		}
		again = sourceRetry
	}
	s.Secret = disk.SecretOf(s.Disk)
	if s.Secret.Version, s.Secret.Hosts, err = c.book.SecretVersion(s.Secret.Type, s.Secret.Name); err != nil {
		return 0, err
	}
	_, s.Wanted = c.wanted.placeFor(s.Disk.Name)
	s.Wanted = s.Wanted || c.kind == v1.KindVirtualImage // an image doesn't wait for a VM
	if address := s.Fetchable(); address != "" {
		s.Progress = c.fetched.latestProgress(ctx, s.Disk.Name, s.Pod.UID, address, c)
		return fetchPause, nil
	}
	c.fetched.forgetDisk(s.Disk.Name)
	return again, nil
}

// stepImport takes a step of an import.
func (c *Controller) stepImport(ctx context.Context, step disk.Step, s *disk.Situation) (err error) {
	switch step {
	case disk.MakePod:
		s.Pod, err = c.makePod(ctx, s)
	case disk.StartPod:
		var may bool
		if may, err = c.reserveOrigin(ctx, s); may && err == nil {
			s.Pod, err = c.startPod(ctx, s.Pod, disk.HasDoor(s.Disk))
		}
	case disk.RemovePod:
		err = c.removePod(ctx, s.Pod)
	case disk.Nothing, disk.Create, disk.Grow, disk.Confirm, disk.Forget:
	}
	return err
}

// makePod creates the import pod, gated.
func (c *Controller) makePod(ctx context.Context, s *disk.Situation) (*corev1.Pod, error) {
	var near *disk.Place
	if s.Claim.Status.Phase != corev1.ClaimBound {
		place, _ := c.wanted.placeFor(s.Disk.Name)
		near = &place
	}
	return c.createPod(ctx, s.Disk, disk.Pod(s.Disk, s.From, c.workerFor(s.Disk), near))
}

// workerFor returns the configuration for the pods of a disk.
func (c *Controller) workerFor(d *v1.VirtualDisk) disk.Worker {
	settings := c.opts.Settings()
	return disk.Worker{
		Image: settings.Image, PullPolicy: settings.ImagePullPolicy, ServiceAccount: objects.ServiceAccount,
		Labels: labelsOf(d), Gate: objects.SchedulingGate, Authorities: objects.ManagerCA,
		NoPrivate: settings.NoPrivateAddresses,
	}
}

// createPod creates a pod of a disk.
func (c *Controller) createPod(ctx context.Context, d *v1.VirtualDisk, pod *corev1.Pod) (*corev1.Pod, error) {
	err := c.opts.Client.Create(ctx, pod, owner)
	if apierrors.IsAlreadyExists(err) {
		err = c.inTheWay(ctx, d, pod.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("create the pod %s: %w", pod.Name, err)
	}
	return pod, c.book.Learn(pod.DeepCopy())
}

// inTheWay returns errTaken if the existing pod doesn't belong to the disk. Otherwise the watch is about to deliver the
// pod, and inTheWay returns err.
func (c *Controller) inTheWay(ctx context.Context, d *v1.VirtualDisk, name string, err error) error {
	var there corev1.Pod
	key := client.ObjectKey{Namespace: c.opts.Namespace, Name: name}
	if c.opts.Live.Get(ctx, key, &there) == nil && !metav1.IsControlledBy(&there, d) {
		return errTaken{}
	}
	return err
}

// errTaken means that the disk's pod name is taken by another pod.
type errTaken struct{}

// Error implements error.
func (errTaken) Error() string { return "there is one already, which is not this disk's: delete it" }

// startPod removes the scheduling gate from the pod with this UID. door requests a TLS key for the pod first.
func (c *Controller) startPod(ctx context.Context, pod *corev1.Pod, door bool) (*corev1.Pod, error) {
	metadata := map[string]any{"uid": pod.UID}
	if door {
		hash, err := c.makePodKey(ctx, pod)
		if err != nil {
			return pod, err
		}
		metadata["annotations"] = map[string]string{disk.AnnotationKey: hash}
	}
	text, err := json.Marshal(map[string]any{
		"metadata": metadata, "spec": map[string]any{"schedulingGates": nil},
	})
	if err != nil {
		return pod, err
	}
	next := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: c.opts.Namespace}}
	err = c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner)
	if err != nil {
		return pod, fmt.Errorf("start the pod %s: %w", pod.Name, err)
	}
	return next, c.book.Learn(next.DeepCopy())
}

// removePod deletes the pod with this UID, if it still exists.
func (c *Controller) removePod(ctx context.Context, pod *corev1.Pod) error {
	err := c.opts.Client.Delete(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: c.opts.Namespace},
	}, client.Preconditions{UID: &pod.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the watch is about to report it
	}
	if err != nil {
		return fmt.Errorf("delete the pod %s: %w", pod.Name, err)
	}
	return nil
}

// untilRetry returns the time until the next attempt; 0 if it is not scheduled.
func untilRetry(is v1.VirtualDiskStatus, now time.Time) time.Duration {
	if is.Import == nil || is.Import.RetryTime == nil {
		return 0
	}
	return max(is.Import.RetryTime.Sub(now), conflictRetry)
}

// soonerOf returns the shorter delay, where 0 means never.
func soonerOf(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
