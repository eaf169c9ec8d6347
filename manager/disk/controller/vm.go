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

// Attached describes the disks of a VM.
type Attached struct {
	// Devices are the known disks among those that the VM names.
	Devices []objects.Device
	// Unknown reports that the VM may not use some of its disks, which is an obstacle. The objects written now are not
	// used for a new pod, and the configuration of a running VM stays unchanged.
	Unknown bool
	// Exported reports that the only uncertainty is how the pod accesses disks that are attached to the running guest.
	// The configuration of the VM omits them as disks of its definition.
	Exported bool
}

// Attach gives a VM that should run the disks that it names. Create no pod that mounts one of these disks, or one of
// the VM's own claims, until Attach has returned without an obstacle.
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
	var other decide.Report // obstacles other than exports
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
	if did.Obstacle == nil { // all or none, to avoid a deadlock of two VMs with the same disks
		for _, d := range free {
			err := c.writeStatus(ctx, d, disk.Lock(d, vm.Name, objects.Taint(vm, s), c.opts.Now()))
			did.Stop(c.obstacleFor(err))
		}
	}
	got.Unknown = did.Obstacle != nil
	return got, did
}

// imagesUnavailable returns why images are not known, if the VM names one; "" otherwise.
func (c *Controller) imagesUnavailable(refs []objects.DeviceRef) string {
	if slices.ContainsFunc(refs, func(r objects.DeviceRef) bool { return r.Kind.IsImage() }) {
		return c.images.whyUnavailable()
	}
	return ""
}

// attachImage gives a VM an image. Images are shared, so this writes no status.
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

// obstacleOf returns the obstacle that an answer means for a VM; nil if the VM may use the disk, or shouldn't run.
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

// exportObstacle returns an obstacle if a disk that the VM has or may take is exported to the running guest; nil
// otherwise.
func (c *Controller) exportObstacle(ctx context.Context, vm *v1.VirtualMachine, ref objects.DeviceRef,
	what disk.Answer) (
	decide.Obstacle, error,
) {
	pod, err := c.opts.VMs.Pod(vm.Name)
	if err != nil {
		return nil, err
	}
	is, err := c.opts.Exports.Exported(ctx, ref.Name, what == disk.Take || pod == nil)
	if err != nil || !is {
		return nil, err
	}
	return decide.Waiting{Reason: disk.ReasonInUse, Message: ref.Path + ": the VirtualDisk " + ref.Name +
		" is attached while the guest runs (VirtualMachineBlockDeviceAttachment): the pod has it from the next start"}, nil
}

// obstacleFor returns what a write error means for a VM.
func (c *Controller) obstacleFor(err error) (decide.Obstacle, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // retry with the new version
		return decide.Waiting{
			Reason: decide.ReasonRetrying, Message: decide.Readable(err.Error()),
			Until: c.opts.Now().Add(conflictRetry),
		}, nil
	}
	return decide.Refused(err), err
}

// Refs returns the status of the disks in a VM's definition. running is the VM's pod; nil if it doesn't run. A disk is
// attached if the pod was started with it.
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

// Lock assigns a disk to a VM for attachment to the running guest, and returns the updated disk.
func (c *Controller) Lock(ctx context.Context, vm string, d *v1.VirtualDisk) (*v1.VirtualDisk, error) {
	if err := c.writeStatus(ctx, d, disk.Lock(d, vm, "", c.opts.Now())); err != nil { // the VM doesn't see the files
		return nil, err
	}
	return c.book.Disk(d.Name)
}

// Release detaches the disks that a VM no longer needs, unless one of its pods still uses them. vm is nil if the VM is
// gone. kept lists the disks that stay, as attachments to the running guest. Don't call it concurrently with Attach for
// the same VM.
func (c *Controller) Release(ctx context.Context, name string, vm *v1.VirtualMachine, kept []string) (
	did decide.Report,
) {
	if vm == nil {
		c.stopWaiting(name)
	}
	if c.whyUnavailable() != "" {
		return did // the VM is reconciled again when the disks are known
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
		did.Err = err // the VM is reconciled again when its pod is gone
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

// releaseDisk detaches a disk from a VM if no pod of the VM has it, or will have it. It reports whether the disk is
// free.
func (c *Controller) releaseDisk(ctx context.Context, vm, name string) (bool, error) {
	d, err := c.book.Disk(name)
	if err != nil || d == nil || disk.Holder(d) != vm {
		return true, err
	}
	if exported, err := c.opts.Exports.Exported(ctx, name, true); exported || err != nil {
		return false, err
	}
	if mounted, settled, err := c.Mounted(ctx, vm, name); mounted || !settled || err != nil {
		return false, err
	}
	err = c.writeStatus(ctx, d, disk.Unlock(d, c.opts.Now()))
	return err == nil, err
}

// Mounted reports whether a pod of a VM has a disk's volume, or whether the VM's stateful set may create such a pod.
// settled reports that this isn't about to change. It asks the API server.
func (c *Controller) Mounted(ctx context.Context, vm, name string) (mounted, settled bool, err error) {
	volume := disk.VolumeName(name)
	return c.mountedBy(ctx, vm, func(pod *corev1.PodSpec) bool { return objects.HasVolume(pod, volume) })
}

// mountedBy is Mounted for pods that match by.
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
