package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// round is the reconciliation of one VM, with the known state of the VM.
type round struct {
	*Controller
	Subject

	ctx    context.Context
	memory *memory        // nil without a VM
	drives objects.Drives // in the configuration that was written last
	pod    *corev1.Pod
	did    *decide.Report
}

// one is a disk or image of a VM.
type one struct {
	attachment.Situation

	round  *round
	first  *v1.VirtualMachineBlockDeviceAttachment // the active attachment; nil: a user has removed it
	export *corev1.Pod
	plan   attachment.Plan
}

// followDisk performs the steps for a disk, and writes the status of its attachments.
func (r *round) followDisk(ref v1.AttachedDeviceRef, all []*v1.VirtualMachineBlockDeviceAttachment) *one {
	o := &one{round: r}
	attachments := attachmentsOf(ref, all)
	if len(attachments) > 0 {
		o.first = attachments[0]
	}
	if err := o.observeAll(ref); err != nil {
		// If the state is unknown, decide nothing and write no status. The guest keeps what it may have.
		o.plan = attachment.Plan{Export: true, Drive: r.drives.Of(ref) != nil}
		r.did.Err = errors.Join(r.did.Err, err)
		return o
	}
	err := o.carryOut()
	if err != nil {
		o.plan.Done, o.plan.Drive = false, o.plan.Drive && o.Drive.Configured
	}
	switch {
	case errors.Is(err, errUnsettled):
		r.did.RetryAt(r.opts.Now().Add(setRetry))
	case errors.Is(err, errStale):
		r.did.RetryAt(r.opts.Now().Add(conflictRetry))
	case errors.As(err, new(errTaken)):
		o.noteRefusal(attachment.Pending, err)
		r.did.RetryAt(r.opts.Now().Add(nameRetry))
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		r.did.RetryAt(r.opts.Now().Add(conflictRetry)) // the watch will deliver a newer version
	case decide.Refused(err) != nil:
		o.noteRefusal(attachment.Pending, err)
		r.did.RetryAt(r.opts.Now().Add(refusedRetry))
	case err != nil:
		r.did.Err = errors.Join(r.did.Err, err)
	}
	for i, a := range attachments {
		is := o.Situation
		plan := o.plan
		if i > 0 {
			is, plan = o.youngerAttachment(a)
		}
		r.concludeAttachment(a, is, plan)
	}
	return o
}

// observeAll collects the state, and decides.
func (o *one) observeAll(ref v1.AttachedDeviceRef) (err error) {
	r := o.round
	s := &o.Situation
	s.VMName, s.Ref, s.VM, s.HasPod = r.Name, ref, r.VM, r.pod != nil
	s.Deleted = o.first == nil || o.first.DeletionTimestamp != nil
	s.OldPod = r.pod != nil && !objects.HasDiskTLS(&r.pod.ObjectMeta)
	s.Awaits = r.hasReported() && r.VM.Status.Runner.AwaitsServers
	s.Earlier = r.hasReported() && !s.Awaits
	s.Drive = r.driveState(ref)
	if ref.Kind.IsImage() {
		err = o.observeImage()
	} else {
		err = o.observeDisk()
	}
	if err != nil {
		return err
	}
	o.plan = attachment.Decide(*s)
	return nil
}

// observeDisk collects the state of a disk, which has its own export.
func (o *one) observeDisk() (err error) {
	r, name := o.round, o.Ref.Name
	o.Mounted = r.pod != nil && objects.HasVolume(&r.pod.Spec, disk.VolumeName(name))
	if o.Disk, err = r.opts.Disks.Disk(name); err != nil {
		return err
	}
	if o.export, err = r.book.Export(objects.ExportName(name)); err != nil {
		return err
	}
	if o.export != nil && o.export.Annotations[objects.AnnotationVM] == r.Name {
		var uid types.UID
		if o.Disk != nil {
			uid = o.Disk.UID
		}
		o.Export = stateOf(o.export, uid)
	}
	return nil
}

// observeImage collects the state of an image. If the VM uses another image of the same name, the new image
// counts as missing, because the guest must not read other data from an existing drive.
func (o *one) observeImage() (err error) {
	r := o.round
	if o.Disk, err = r.opts.Disks.Image(v1.BlockDeviceKind(o.Ref.Kind), o.Ref.Name); err != nil {
		return err
	}
	o.Mounted = r.pod != nil && objects.HasVolume(&r.pod.Spec, volumeOf(o.Ref))
	for _, name := range r.book.Exports(r.Name) {
		export, err := r.book.Export(name)
		if err != nil {
			return err
		}
		if export == nil { // it has just ended
			continue
		}
		if ref, _ := objects.ExportOf(export); ref == o.Ref {
			o.export = export
		}
	}
	has := ""
	if o.export != nil {
		var uid types.UID
		if r.VM != nil {
			uid = r.VM.UID
		}
		o.Export, has = stateOf(o.export, uid), o.export.Name
	}
	if have := r.drives.Of(o.Ref); have != nil {
		has = have.Export
	}
	if has != "" && (r.VM == nil || o.Disk != nil && objects.NewImageExport(o.Ref, o.Disk, r.VM).Name != has) {
		o.Disk = nil
	}
	return nil
}

// volumeOf returns the name of the volume of a pod that mounts an image instead of attaching it.
func volumeOf(ref v1.AttachedDeviceRef) string {
	return objects.DeviceRef{Kind: v1.BlockDeviceKind(ref.Kind), Name: ref.Name}.Volume()
}

// stateOf returns the state of an export. The export is only ready if its owner has the given UID, which belongs
// to the disk or the VM. An export of an earlier disk with the same name has another volume, and is never ready.
// uid is "" if the disk does not exist.
func stateOf(pod *corev1.Pod, uid types.UID) attachment.Export {
	e := attachment.Export{Exists: true, Ending: pod.DeletionTimestamp != nil, Over: disk.Finished(pod)}
	owner := metav1.GetControllerOfNoCopy(pod)
	ours := uid != "" && owner != nil && owner.UID == uid
	e.Ready = ours && !e.Over && isReady(pod)
	if !e.Ready {
		e.Problem = decide.Readable(problemOf(pod))
	}
	return e
}

// isReady reports whether the container of an export is serving.
func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	all := pod.Status.ContainerStatuses
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !c.Ready })
}

// problemOf returns the reason why an export isn't ready, as a clause for people; "" if its status shows no
// reason.
func problemOf(pod *corev1.Pod) string {
	_, why := disk.Unstarted(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		return "the pod " + pod.Name + " is being deleted: if it stays so, look after its node " + pod.Spec.NodeName
	case disk.Finished(pod):
		said := strings.Trim(pod.Status.Reason+": "+pod.Status.Message, ": ")
		return "the pod " + pod.Name + " was ended: " + cmp.Or(said, "its node has not reported why")
	case why != "":
		return why
	}
	for _, c := range pod.Status.ContainerStatuses {
		ended := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if ended != nil && !c.Ready {
			return "the pod " + pod.Name + " has failed: " +
				cmp.Or(ended.Message, ended.Reason+" with the code "+strconv.Itoa(int(ended.ExitCode)))
		}
	}
	return ""
}

// hasReported reports whether the runner in the VM's current pod has reported its status.
func (r *round) hasReported() bool {
	return r.VM != nil && r.pod != nil && r.VM.Status.Runner != nil && r.VM.Status.Runner.PodUID == r.pod.UID
}

// driveState returns the known state of the drive of a disk or image.
func (r *round) driveState(ref v1.AttachedDeviceRef) (d attachment.Drive) {
	if r.VM == nil {
		d.Unseen = r.pod != nil // it may have any drive
		return d
	}
	d.Configured = r.drives.Of(ref) != nil
	runner := r.VM.Status.Runner
	d.Unseen = r.drives.Revision != 0 && (!r.hasReported() || runner.DrivesRevision != r.drives.Revision) ||
		r.pod != nil && r.pod.CreationTimestamp.Before(&r.VM.CreationTimestamp) // the pod belongs to an earlier VM
	if !r.hasReported() {
		return d
	}
	for _, drive := range runner.Drives {
		if drive.Name == objects.AttachedSerial(ref) {
			d.State, d.Message = attachment.DriveState(drive.State), drive.Message
		}
	}
	return d
}

// carryOut performs the decided step, and decides again after taking the lock.
func (o *one) carryOut() error {
	r := o.round
	if o.plan.Take {
		if err := r.holdAttachment(o.first); err != nil { // before the disk contains a reference to the attachment
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
	case o.plan.Renew: // only the pod is replaced
		o.Export.Ending = true
		return r.removeObject(&corev1.Pod{}, o.export, o.export.UID)
	case o.plan.Drive && o.Drive.State != attachment.DriveAttached && o.Export.Ready && !o.Export.Ending:
		return r.restoreService(o)
	case o.plan.Export && !o.Export.Exists:
		return o.beginExport()
	case !o.plan.Export && o.Export.Exists && !o.Export.Ending:
		if err := r.checkUnchanged(); err != nil {
			return err
		}
		if err := r.endExport(o.export); err != nil {
			return err
		}
		o.Export.Ending = true
	case o.plan.Done:
		return r.checkUnchanged()
	}
	return nil
}

// beginExport exports the disk, unless a pod mounts its claim. An image does not need this check, because it is only
// read.
func (o *one) beginExport() (err error) {
	r := o.round
	if o.Ref.Kind == v1.AttachedDisk {
		mounted, settled, err := r.opts.Disks.Mounted(r.ctx, r.Name, o.Ref.Name)
		switch {
		case err != nil:
			return err
		case !settled:
			return errUnsettled
		case mounted:
			o.Mounted = true
			r.did.RetryAt(r.opts.Now().Add(nameRetry))
			o.plan = attachment.Decide(o.Situation)
			return nil
		}
	}
	if err := r.holdAttachment(o.first); err != nil {
		return err
	}
	if o.export, err = r.serveDisk(o); err != nil {
		return err
	}
	o.Export.Exists = true
	return nil
}

// attachedDrive returns the drive for the configuration, or nil.
func (o *one) attachedDrive() *objects.AttachedDrive {
	if !o.plan.Drive {
		return nil
	}
	if have := o.round.drives.Of(o.Ref); have != nil {
		return have
	}
	if o.export == nil {
		return nil
	}
	address := o.export.Annotations[objects.AnnotationAddress]
	if o.Ref.Kind == v1.AttachedDisk {
		return &objects.AttachedDrive{Disk: o.Ref.Name, Address: address}
	}
	if o.Disk == nil {
		return nil
	}
	return &objects.AttachedDrive{
		Image: o.Ref.Name, Cluster: o.Ref.Kind == v1.AttachedClusterImage, CD: disk.IsCD(o.Disk), Export: o.export.Name,
		Address: address,
	}
}

// noteRefusal records in the plan why it could not be performed.
func (o *one) noteRefusal(phase attachment.Phase, err error) {
	if o.Deleted {
		phase = attachment.Terminating
	}
	o.plan.Phase, o.plan.Reason, o.plan.Message = phase, attachment.ReasonRefused, decide.Readable(err.Error())
}

// youngerAttachment returns the situation and the plan of a younger attachment of the disk, which is not active.
func (o *one) youngerAttachment(a *v1.VirtualMachineBlockDeviceAttachment) (attachment.Situation, attachment.Plan) {
	s := o.Situation
	s.Other, s.OtherEnds = o.first.Name, o.first.DeletionTimestamp != nil
	s.Deleted = a.DeletionTimestamp != nil
	s.Drive, s.Export, s.Mounted = attachment.Drive{}, attachment.Export{}, false
	return s, attachment.Decide(s)
}
