package controller

import (
	"cmp"
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Attached are the disks of a VM.
type Attached struct {
	// Devices is what is known of those that the VM names.
	Devices []objects.Device
	// Unknown means that the VM may not have all of them, which is an obstacle. No pod is made
	// with what is written now, and the configuration of a VM that is running stays as it is.
	Unknown bool
	// Exported: what is unknown is only how the pod gets disks that are attached to the running
	// guest. They are left out of its configuration as disks of the definition.
	Exported bool
}

// Attach gives a VM that is to run the disks that it names. No pod of the VM that mounts one, or one of the VM's own
// claims, may be made before this has returned without an obstacle.
func (c *Controller) Attach(ctx context.Context, vm *v1.VirtualMachine, claims []objects.Claim, s objects.Settings) (
	got Attached, did decide.Report,
) {
	refs := objects.DeviceRefs(vm)
	did = c.waitForCopies(vm, claims)
	if len(refs) == 0 {
		c.stopWaiting(vm.Name)
		return got, did
	}
	if why := cmp.Or(c.whyUnavailable(), c.imagesUnavailable(refs)); why != "" {
		got.Unknown = true
		did.Stop(decide.Waiting{
			Reason: disk.ReasonNotReady, Message: why, Until: c.opts.Now().Add(unlistedRetry),
		}, nil)
		return got, did
	}
	var free []*v1.VirtualDisk
	var other decide.Report // what is not about exports
	c.waitForDisks(vm, refs)
	for _, ref := range refs {
		if ref.Kind.IsImage() {
			c.attachImage(vm, ref, &got, &other)
			continue
		}
		d, err := c.book.Disk(ref.Name)
		if err != nil {
			other.Stop(nil, err)
			continue
		}
		if d != nil {
			got.Devices = append(got.Devices, objects.Device{
				DeviceRef: ref, OnFileSystem: disk.OnFileSystem(d), Size: disk.Size(d), Claim: disk.ClaimFor(d, vm),
				Untrusted: d.Status.Untrusted,
			})
		}
		what, reason, message := disk.ForVM(vm.Name, ref.Name, d)
		if what == disk.Has || what == disk.Take {
			exported, err := c.exportObstacle(ctx, vm, ref, what)
			other.Stop(nil, err)
			if exported != nil {
				got.Exported, got.Devices[len(got.Devices)-1].Exported = true, true
				did.Stop(exported, nil)
			}
		}
		if what == disk.Take && vm.Spec.DesiredState() == v1.Running {
			free = append(free, d)
		}
		other.Stop(obstacleOf(vm, ref, what, reason, message), nil)
	}
	got.Exported = got.Exported && other.Obstacle == nil
	did.Append(other)
	if did.Obstacle == nil { // all or none: two VMs with the same two disks don't wait for each other
		for _, d := range free {
			err := c.writeStatus(ctx, d, disk.Lock(d, vm.Name, objects.Taint(vm, s), c.opts.Now()))
			did.Stop(c.obstacleFor(err))
		}
	}
	got.Unknown = did.Obstacle != nil
	return got, did
}

// imagesUnavailable returns why images are not known of which a VM names some; "" if they are.
func (c *Controller) imagesUnavailable(refs []objects.DeviceRef) string {
	if slices.ContainsFunc(refs, func(r objects.DeviceRef) bool { return r.Kind.IsImage() }) {
		return c.images.whyUnavailable()
	}
	return ""
}

// attachImage gives a VM an image, which it shares with others. Nothing is written for that.
func (c *Controller) attachImage(vm *v1.VirtualMachine, ref objects.DeviceRef, got *Attached, did *decide.Report) {
	i, err := c.diskNamed(ref.Kind, ref.Name)
	if err != nil {
		did.Stop(nil, err)
		return
	}
	if disk.Stored(i) {
		got.Devices = append(got.Devices, objects.Device{
			DeviceRef: ref, OnFileSystem: disk.OnFileSystem(i), CD: disk.IsCD(i), Claim: disk.ClaimOf(i),
			Untrusted: i.Status.Untrusted,
		})
	}
	what, reason, message := disk.ForImage(ref.Kind, ref.Name, i)
	did.Stop(obstacleOf(vm, ref, what, reason, message), nil)
}

// obstacleOf returns the obstacle that an answer is for a VM; nil if it may have the disk, or isn't to run.
func obstacleOf(vm *v1.VirtualMachine, ref objects.DeviceRef, what disk.Answer, reason,
	message string,
) decide.Obstacle {
	message = ref.Path + ": " + message
	switch {
	case vm.Spec.DesiredState() != v1.Running:
	case what == disk.Wait:
		return decide.Waiting{Reason: reason, Message: message}
	case what == disk.Refuse:
		return decide.Stalled{Reason: reason, Message: message}
	}
	return nil
}

// exportObstacle returns the obstacle that a disk, which the VM has or may have, is exported to the
// running guest; nil if it isn't.
func (c *Controller) exportObstacle(ctx context.Context, vm *v1.VirtualMachine, ref objects.DeviceRef,
	what disk.Answer) (
	decide.Obstacle, error,
) {
	pod, err := c.opts.VMs.Pod(vm.Name)
	if err != nil {
		return nil, err
	}
	is, err := c.exports.Exported(ctx, ref.Name, what == disk.Take || pod == nil)
	if err != nil || !is {
		return nil, err
	}
	return decide.Waiting{Reason: disk.ReasonInUse, Message: ref.Path + ": the VirtualDisk " + ref.Name +
		" is attached while the guest runs (VirtualMachineBlockDeviceAttachment): the pod has it from the next start"}, nil
}

// obstacleFor returns what an error of a write means for a VM.
func (c *Controller) obstacleFor(err error) (decide.Obstacle, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it is looked at again with what is new
		return decide.Waiting{
			Reason: decide.ReasonRetrying, Message: decide.Readable(err.Error()),
			Until: c.opts.Now().Add(conflictRetry),
		}, nil
	}
	return decide.Refused(err), err
}

// Refs returns what is known of the disks of a VM's definition, for its status. A machine has them
// that was started in a pod with them; running is that pod, nil if there is none.
func (c *Controller) Refs(vm *v1.VirtualMachine, running *corev1.Pod) (all []v1.BlockDeviceStatusRef) {
	for _, ref := range objects.DeviceRefs(vm) {
		is := v1.BlockDeviceStatusRef{Kind: ref.Kind, Name: ref.Name, Serial: ref.Serial()}
		if d, err := c.diskNamed(ref.Kind, ref.Name); err == nil && d != nil {
			is.Size, is.AccessMode = d.Status.Capacity, disk.AccessMode(d)
			switch {
			case running == nil:
			case ref.Kind.IsImage():
				is.Attached = objects.Mounts(&running.Spec, disk.ClaimOf(d))
			default:
				is.Attached = disk.Holder(d) == vm.Name && objects.HasVolume(&running.Spec, disk.VolumeName(ref.Name))
			}
		}
		all = append(all, is)
	}
	return all
}

// Lock gives a disk to a VM to which it is attached while the guest runs, and returns it as it is
// then.
func (c *Controller) Lock(ctx context.Context, vm string, d *v1.VirtualDisk) (*v1.VirtualDisk, error) {
	if err := c.writeStatus(ctx, d, disk.Lock(d, vm, "", c.opts.Now())); err != nil { // the VM gets no files
		return nil, err
	}
	return c.book.Disk(d.Name)
}

// Release takes from a VM the disks that it no longer needs, when no pod of it has them. vm is nil
// if it is gone; kept are disks that are attached to it while it runs. It must not be called while
// Attach is for the same VM.
func (c *Controller) Release(ctx context.Context, name string, vm *v1.VirtualMachine, kept []string) (
	did decide.Report,
) {
	if vm == nil {
		c.stopWaiting(name)
	}
	if c.whyUnavailable() != "" {
		return did // the VM is looked at again when the disks are known
	}
	held := slices.DeleteFunc(c.book.Of(name), func(d string) bool { return slices.Contains(kept, d) })
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
		released, err := c.releaseDisk(ctx, name, of)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err), err == nil && !released:
			did.RetryAt(c.opts.Now().Add(podRetry))
		case err != nil:
			did.Stop(nil, err)
		}
	}
	return did
}

// releaseDisk takes a disk from a VM, if no pod of it has it, or will have it.
func (c *Controller) releaseDisk(ctx context.Context, vm, name string) (bool, error) {
	d, err := c.book.Disk(name)
	if err != nil || d == nil || disk.Holder(d) != vm {
		return true, err
	}
	if exported, err := c.exports.Exported(ctx, name, true); exported || err != nil {
		return false, err
	}
	if mounted, settled, err := c.Mounted(ctx, vm, name); mounted || !settled || err != nil {
		return false, err
	}
	err = c.writeStatus(ctx, d, disk.Unlock(d, c.opts.Now()))
	return err == nil, err
}

// Mounted reports whether a pod of a VM has a claim of a disk, or whether its stateful set may make
// one that has. settled: that isn't changing just now. The API server is asked.
func (c *Controller) Mounted(ctx context.Context, vm, name string) (mounted, settled bool, err error) {
	volume := disk.VolumeName(name)
	return c.mountedBy(ctx, vm, func(pod *corev1.PodSpec) bool { return objects.HasVolume(pod, volume) })
}

// mountedBy is Mounted for pods that have what is meant.
func (c *Controller) mountedBy(ctx context.Context, vm string, by func(*corev1.PodSpec) bool) (
	mounted, settled bool, err error,
) {
	var set appsv1.StatefulSet
	err = c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: vm}, &set)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, false, err
	case set.Status.ObservedGeneration < set.Generation: // its controller may be about to create a pod
		return false, false, nil
	case set.Spec.Replicas != nil && *set.Spec.Replicas > 0 && by(&set.Spec.Template.Spec):
		return true, true, nil
	}
	var pods corev1.PodList
	err = c.opts.Live.List(ctx, &pods, client.InNamespace(c.opts.Namespace),
		client.MatchingLabels{objects.LabelName: objects.AppName, objects.LabelInstance: vm})
	if err != nil {
		return false, false, err
	}
	mounted = slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return by(&p.Spec) })
	return mounted, true, nil
}
