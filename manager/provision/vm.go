package provision

import (
	"cmp"
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// Attached are the disks of a VM.
type Attached struct {
	// Devices is what is known of those that the VM names.
	Devices []objects.Device
	// Unknown means that the VM may not have all of them, which is an obstacle. No pod is made
	// with what is written now, and the configuration of a VM that is running stays as it is.
	Unknown bool
}

// Attach gives a VM that is to run the disks that it names. No pod of the VM that mounts one may
// be made before this has returned without an obstacle.
func (c *Controller) Attach(ctx context.Context, vm *v1.VirtualMachine, s objects.Settings) (
	got Attached, did decide.Report,
) {
	refs := objects.DeviceRefs(vm)
	if len(refs) == 0 {
		c.unwant(vm.Name)
		return got, did
	}
	if why := cmp.Or(c.unavailable(), c.imagesUnavailable(refs)); why != "" {
		got.Unknown = true
		did.Stop(decide.Waiting{
			Reason: disk.ReasonNotReady, Message: why, Until: c.opts.Now().Add(unlistedRetry),
		}, nil)
		return got, did
	}
	var free []*v1.VirtualDisk
	c.want(vm, refs)
	for _, ref := range refs {
		if ref.Kind == v1.KindVirtualImage {
			c.attachImage(vm, ref, &got, &did)
			continue
		}
		d, err := c.book.Disk(ref.Name)
		if err != nil {
			did.Stop(nil, err)
			continue
		}
		if d != nil {
			got.Devices = append(got.Devices, objects.Device{
				DeviceRef: ref, OnFileSystem: disk.OnFileSystem(d), Size: disk.Size(d), Untrusted: d.Status.Untrusted,
			})
		}
		switch what, reason, message := disk.ForVM(vm.Name, ref.Name, d); {
		case vm.Spec.DesiredState() != v1.Running:
		case what == disk.Take:
			free = append(free, d)
		case what == disk.Wait:
			did.Stop(decide.Waiting{Reason: reason, Message: ref.Path + ": " + message}, nil)
		case what == disk.Refuse:
			did.Stop(decide.Stalled{Reason: reason, Message: ref.Path + ": " + message}, nil)
		}
	}
	if did.Obstacle == nil { // all or none: two VMs with the same two disks don't wait for each other
		for _, d := range free {
			err := c.write(ctx, d, disk.Lock(d, vm.Name, objects.Taint(vm, s), c.opts.Now()))
			did.Stop(c.obstacle(err))
		}
	}
	got.Unknown = did.Obstacle != nil
	return got, did
}

// imagesUnavailable returns why images are not known of which a VM names some; "" if they are.
func (c *Controller) imagesUnavailable(refs []objects.DeviceRef) string {
	if slices.ContainsFunc(refs, func(r objects.DeviceRef) bool { return r.Kind == v1.KindVirtualImage }) {
		return c.images.unavailable()
	}
	return ""
}

// attachImage gives a VM an image, which it shares with others. Nothing is written for that.
func (c *Controller) attachImage(vm *v1.VirtualMachine, ref objects.DeviceRef, got *Attached, did *decide.Report) {
	i, err := c.images.book.Disk(ref.Name)
	if err != nil {
		did.Stop(nil, err)
		return
	}
	if i != nil {
		got.Devices = append(got.Devices, objects.Device{
			DeviceRef: ref, OnFileSystem: disk.OnFileSystem(i), CD: disk.IsCD(i), Claim: disk.ClaimOf(i),
			Untrusted: i.Status.Untrusted,
		})
	}
	what, reason, message := disk.ForImage(ref.Name, i)
	switch message = ref.Path + ": " + message; {
	case vm.Spec.DesiredState() != v1.Running:
	case what == disk.Wait:
		did.Stop(decide.Waiting{Reason: reason, Message: message}, nil)
	case what == disk.Refuse:
		did.Stop(decide.Stalled{Reason: reason, Message: message}, nil)
	}
}

// obstacle returns what an error of a write means for a VM.
func (c *Controller) obstacle(err error) (decide.Obstacle, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it is looked at again with what is new
		return decide.Waiting{
			Reason: decide.ReasonRetrying, Message: decide.Readable(err.Error()),
			Until: c.opts.Now().Add(conflictRetry),
		}, nil
	}
	return decide.Refused(err), err
}

// Release takes from a VM the disks that it no longer needs, when no pod of it has them. vm is nil
// if it is gone. It must not be called while Attach is for the same VM.
func (c *Controller) Release(ctx context.Context, name string, vm *v1.VirtualMachine) (did decide.Report) {
	if vm == nil {
		c.unwant(name)
	}
	if c.unavailable() != "" {
		return did // the VM is looked at again when the disks are known
	}
	held := c.book.Of(name)
	if vm != nil && vm.Spec.DesiredState() == v1.Running {
		for _, ref := range objects.DeviceRefs(vm) {
			held = slices.DeleteFunc(held, func(d string) bool {
				return ref.Kind == v1.KindVirtualDisk && d == ref.Name
			})
		}
	}
	if len(held) == 0 {
		return did
	}
	pod, err := c.opts.VMs.Pod(name)
	if err != nil || pod != nil && (vm == nil || vm.Spec.DesiredState() != v1.Running) {
		did.Err = err // the VM is looked at when its pod is gone
		return did
	}
	for _, of := range held {
		released, err := c.release(ctx, name, of)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), err == nil && !released:
			did.RetryAt(c.opts.Now().Add(podRetry))
		case err != nil:
			did.Stop(nil, err)
		}
	}
	return did
}

// release takes a disk from a VM, if no pod of it has it, or will have it.
func (c *Controller) release(ctx context.Context, vm, name string) (bool, error) {
	d, err := c.book.Disk(name)
	if err != nil || d == nil || disk.Holder(d) != vm {
		return true, err
	}
	claim := disk.ClaimName(name)
	var set appsv1.StatefulSet
	err = c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: vm}, &set)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	case set.Status.ObservedGeneration < set.Generation: // its controller may be about to create a pod
		return false, nil
	case set.Spec.Replicas != nil && *set.Spec.Replicas > 0 && mounts(&set.Spec.Template.Spec, claim):
		return false, nil
	}
	var pods corev1.PodList
	err = c.opts.Live.List(ctx, &pods, client.InNamespace(c.opts.Namespace),
		client.MatchingLabels{objects.LabelName: objects.AppName, objects.LabelInstance: vm})
	if err != nil {
		return false, err
	}
	for i := range pods.Items {
		if mounts(&pods.Items[i].Spec, claim) {
			return false, nil
		}
	}
	err = c.write(ctx, d, disk.Unlock(d, c.opts.Now()))
	return err == nil, err
}

// mounts reports whether a pod has the volume of a claim.
func mounts(pod *corev1.PodSpec, claim string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}
