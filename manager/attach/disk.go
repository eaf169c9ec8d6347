package attach

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/decide"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// round is what is known of a VM, and what was done for it.
type round struct {
	*Controller
	Subject

	ctx    context.Context
	memory *memory        // nil without a VM
	drives objects.Drives // of the configuration that was written last
	pod    *corev1.Pod
	did    *decide.Report
}

// one is a disk of a VM.
type one struct {
	attachment.Situation

	round  *round
	first  *v1.VirtualMachineBlockDeviceAttachment // that is carried out; nil: a user has removed it
	export *corev1.Pod
	plan   attachment.Plan
}

// disk does what there is to do for a disk, and says so in the status of its attachments.
func (r *round) disk(name string, all []*v1.VirtualMachineBlockDeviceAttachment) *one {
	o := &one{round: r}
	attachments := of(name, all)
	if len(attachments) > 0 {
		o.first = attachments[0]
	}
	err := o.observe(name)
	if err == nil {
		err = o.act()
	}
	if err != nil {
		o.plan.Done = false
	}
	switch {
	case errors.Is(err, errStale):
		r.did.RetryAt(r.opts.Now().Add(conflictRetry))
	case errors.As(err, new(errTaken)):
		o.refused(attachment.Pending, err)
		r.did.RetryAt(r.opts.Now().Add(nameRetry))
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		r.did.RetryAt(r.opts.Now().Add(conflictRetry)) // the watch is about to bring something else
	case decide.Refused(err) != nil:
		o.refused(attachment.Pending, err)
		r.did.RetryAt(r.opts.Now().Add(refusedRetry))
	case err != nil:
		r.did.Err = errors.Join(r.did.Err, err)
	}
	for i, a := range attachments {
		is := o.Situation
		plan := o.plan
		if i > 0 {
			is, plan = o.other(a)
		}
		r.conclude(a, is, plan)
	}
	return o
}

// observe finds out what there is, and decides.
func (o *one) observe(name string) (err error) {
	r := o.round
	s := &o.Situation
	s.VMName, s.DiskName, s.VM, s.HasPod = r.Name, name, r.VM, r.pod != nil
	s.Deleted = o.first == nil || o.first.DeletionTimestamp != nil
	s.Mounted = r.pod != nil && objects.Mounts(&r.pod.Spec, disk.ClaimName(name))
	s.OldPod = r.pod != nil && !objects.HasDiskTLS(&r.pod.ObjectMeta)
	if s.Disk, err = r.opts.Disks.Disk(name); err != nil {
		return err
	}
	if o.export, err = r.book.Export(objects.ExportName(name)); err != nil {
		return err
	}
	if o.export != nil && o.export.Annotations[objects.AnnotationVM] == r.Name {
		s.Export = attachment.Export{
			Exists: true, Ending: o.export.DeletionTimestamp != nil, Ready: isReady(o.export),
		}
	}
	s.Drive = r.driveState(name)
	o.plan = attachment.Decide(*s)
	return nil
}

// isReady reports whether the container of an export serves.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// driveState returns what is known of the drive of a disk.
func (r *round) driveState(disk string) (d attachment.Drive) {
	if r.VM == nil {
		d.Unseen = r.pod != nil // it may have any drive
		return d
	}
	d.Configured = r.drives.Of(disk) != nil
	runner := r.VM.Status.Runner
	reported := r.pod != nil && runner != nil && runner.PodUID == r.pod.UID
	d.Unseen = r.drives.Revision != 0 && (!reported || runner.DrivesRevision != r.drives.Revision)
	if !reported {
		return d
	}
	for _, drive := range runner.Drives {
		if drive.Name == objects.AttachedSerial(disk) {
			d.State, d.Message = attachment.DriveState(drive.State), drive.Message
		}
	}
	return d
}

// act does what was decided, and decides again after each step.
func (o *one) act() error {
	r := o.round
	if o.plan.Take {
		if err := r.hold(o.first); err != nil { // before the disk has anything of it
			return err
		}
		taken, err := r.opts.Disks.Lock(r.ctx, r.Name, o.Disk)
		if err != nil {
			return err
		}
		o.Disk = taken
		o.plan = attachment.Decide(o.Situation)
	}
	switch {
	case o.plan.Export && !o.Export.Exists:
		mounted, settled, err := r.opts.Disks.Mounted(r.ctx, r.Name, o.DiskName)
		switch {
		case err != nil:
			return err
		case !settled:
			return errStale
		case mounted:
			o.Mounted = true
			r.did.RetryAt(r.opts.Now().Add(nameRetry))
			o.plan = attachment.Decide(o.Situation)
			return nil
		}
		if err := r.hold(o.first); err != nil {
			return err
		}
		if o.export, err = r.serve(o); err != nil {
			return err
		}
		o.Export.Exists = true
	case !o.plan.Export && o.Export.Exists && !o.Export.Ending:
		if err := r.unchanged(); err != nil {
			return err
		}
		if err := r.end(o.export); err != nil {
			return err
		}
		o.Export.Ending = true
	case o.plan.Done:
		return r.unchanged()
	}
	return nil
}

// drive returns what is to be in the configuration; nil for nothing.
func (o *one) drive() *objects.AttachedDrive {
	if !o.plan.Drive {
		return nil
	}
	if have := o.round.drives.Of(o.DiskName); have != nil {
		return have
	}
	if o.export == nil {
		return nil
	}
	return &objects.AttachedDrive{Disk: o.DiskName, Address: o.export.Annotations[objects.AnnotationAddress]}
}

// refused makes the plan say why it could not be carried out.
func (o *one) refused(phase attachment.Phase, err error) {
	if o.Deleted {
		phase = attachment.Terminating
	}
	o.plan.Phase, o.plan.Reason, o.plan.Message = phase, attachment.ReasonRefused, decide.Readable(err.Error())
}

// other returns what is said of a younger attachment of the disk, which is not carried out.
func (o *one) other(a *v1.VirtualMachineBlockDeviceAttachment) (attachment.Situation, attachment.Plan) {
	s := o.Situation
	s.Other, s.OtherEnds = o.first.Name, o.first.DeletionTimestamp != nil
	s.Deleted = a.DeletionTimestamp != nil
	s.Drive, s.Export, s.Mounted = attachment.Drive{}, attachment.Export{}, false
	return s, attachment.Decide(s)
}
