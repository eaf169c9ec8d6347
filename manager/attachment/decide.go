package attachment

import (
	"fmt"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// Phase is the state of an attachment.
type Phase = v1.AttachmentPhase

// The phases.
const (
	Pending     = v1.AttachmentPending
	inProgress  = v1.AttachmentInProgress
	Attached    = v1.AttachmentAttached
	failed      = v1.AttachmentFailed
	Terminating = v1.AttachmentTerminating
)

// Reasons, in addition to package disk's reasons for refusing a disk to a VM.
const (
	ReasonVMMissing  = "VirtualMachineMissing"
	ReasonVMStopped  = "VirtualMachineNotRunning"
	ReasonConflict   = "Conflict" // the VM gets the disk in another way
	ReasonExporting  = "ExportStarting"
	ReasonRequested  = "AttachmentRequestSent"
	reasonNotPlugged = "NotAttached" // the runner or the guest can't attach it
	reasonDetaching  = "Detaching"
	ReasonAttached   = "Attached"
	reasonRestart    = "RestartRequired" // the VM's pod lacks the prerequisites
	ReasonRefused    = "Refused"         // by the API server
)

// DriveState is the state of a drive reported by the runner.
type DriveState string

// The states. DriveNone means that QEMU has no such drive.
const (
	DriveNone      DriveState = ""
	DriveAttaching DriveState = "Attaching"
	DriveAttached  DriveState = "Attached"
	DriveDetaching DriveState = "Detaching"
	DriveFailed    DriveState = "Failed" // attaching failed or, if the drive isn't configured, detaching failed
)

// Drive is the known state of an attachment's drive in the VM.
type Drive struct {
	// Configured reports whether the runner's configuration contains the drive. Unseen reports whether the runner
	// has not yet reported on that configuration, and may still follow the previous configuration.
	Configured, Unseen bool
	// State is the last state reported by the runner in the VM's current pod, with a message for people.
	State   DriveState
	Message string
}

// inQEMU reports whether the machine has the disk, or may be about to get it.
func (d Drive) inQEMU() bool {
	return d.Configured || d.Unseen || d.State != DriveNone
}

// mayHaveDisk reports whether the machine has or had the disk, according to its runner's last report.
func (d Drive) mayHaveDisk() bool {
	return d.State == DriveAttached || d.State == DriveDetaching || d.State == DriveNone && d.Unseen
}

// Export is the state of the pod that serves the disk.
type Export struct {
	Exists bool
	Ready  bool // it is serving
	Ending bool // it is being deleted
	// Over reports whether its pod has ended and will not be restarted, for example after an eviction.
	Over bool
	// Problem is the reason why it isn't ready, as a clause for people; "" if unknown.
	Problem string
}

// Situation contains the state that the decision about an attachment depends on.
type Situation struct {
	VMName string
	// Ref names the disk or image.
	Ref v1.AttachedDeviceRef
	// Deleted reports whether the disk must be detached.
	Deleted bool
	// Other is an older attachment of the same disk, or "". OtherEnds reports whether it is being deleted.
	Other     string
	OtherEnds bool
	// VM is nil if it does not exist. HasPod reports whether it has a pod, even a terminating pod. OldPod reports
	// whether an earlier version of the manager has created the pod without the folder for certificates.
	VM             *v1.VirtualMachine
	HasPod, OldPod bool
	// Awaits reports whether the runner in that pod supports CD drives from servers, Earlier whether its version
	// is too old for that. The VM gets no drive for an image if Earlier is true, or until its runner has
	// reported.
	Awaits, Earlier bool
	// Disk is nil if it does not exist. It can be an image (disk.AsDisk).
	Disk *v1.VirtualDisk
	// Mounted reports whether a pod of the VM mounts the claim, or the VM's StatefulSet may create such a pod.
	Mounted bool
	Export  Export
	Drive   Drive
}

// Plan contains the desired state, and the status.
type Plan struct {
	// Take locks the disk for the VM, for the version of the disk that was read.
	Take bool
	// Export requires an export. It is created only after the lock was taken.
	Export bool
	// Renew deletes the export's pod, so that a new pod can replace it.
	Renew bool
	// Drive requires the drive in the VM's configuration.
	Drive bool
	// Done means that a deleted attachment needs no further work.
	Done bool

	Phase           Phase
	Reason, Message string
}

// Decide returns the plan for an attachment.
func Decide(s Situation) Plan {
	wanted, p := s.isWanted()
	held := s.holdsLock()
	switch {
	case wanted && !held:
		p.Take = true
		p.Phase, p.Reason, p.Message = inProgress, ReasonExporting,
			"the "+s.nounForPeople()+" is being reserved for the VM"
	case wanted:
		p.Export = true
		p.Drive = s.isServed() && (s.Awaits || !s.isImage()) || s.Drive.Configured
		p.Phase, p.Reason, p.Message = s.attachProgress()
	}
	// QEMU's open disks must be served until QEMU has closed them. Detaching a disk that is not being served
	// would stop the guest while QEMU waits for the server.
	if !wanted && s.HasPod && held && s.Drive.Configured && s.Drive.mayHaveDisk() && !s.isServed() {
		p.Export, p.Drive = true, true
		p.Message = s.servedAgainText()
	} else if s.HasPod && held && s.Drive.inQEMU() && (s.Export.Exists || s.Drive.State != DriveNone && !s.Mounted) {
		p.Export = true
	}
	p.Renew = p.Export && s.Export.Over && !s.Export.Ending
	p.Done = s.Deleted && !s.Export.Exists && !(s.HasPod && s.Drive.inQEMU())
	return p
}

// isImage reports whether the device is an image, which any number of VMs may use.
func (s Situation) isImage() bool { return s.Ref.Kind.IsImage() }

// nounForPeople returns the word for the device in messages.
func (s Situation) nounForPeople() string {
	if s.isImage() {
		return "image"
	}
	return "disk"
}

// kindAndName returns the kind and the name of the device.
func (s Situation) kindAndName() string { return "the " + string(s.Ref.Kind) + " " + s.Ref.Name }

// holdsLock reports whether the VM holds the disk's lock. An image has no lock: it must exist, or have existed when
// its export was created.
func (s Situation) holdsLock() bool {
	if s.isImage() {
		return s.Disk != nil || s.Export.Exists
	}
	return s.Disk != nil && disk.Holder(s.Disk) == s.VMName
}

// Available decides whether the VM may use the disk or image.
func (s Situation) Available() (what disk.Answer, reason, message string) {
	if s.isImage() {
		return disk.AvailableImage(v1.BlockDeviceKind(s.Ref.Kind), s.Ref.Name, s.Disk)
	}
	return disk.Available(s.VMName, s.Ref.Name, s.Disk)
}

// isServed reports whether the export serves the disk and is not about to end.
func (s Situation) isServed() bool { return s.Export.Ready && !s.Export.Ending }

// isWanted reports whether the VM should have the disk now. If not, it also returns the plan with the reason. An
// attached disk stays as long as the VM's pod, even if it would not be attached now, because a guest that is shutting
// down needs it.
func (s Situation) isWanted() (bool, Plan) {
	because := func(phase Phase, reason, format string, args ...any) (bool, Plan) {
		return false, Plan{Phase: phase, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Deleted:
		return because(Terminating, reasonDetaching, "%s", s.detachProgress())
	case s.Mounted: // includes a pod that is just being created
		return because(Pending, ReasonConflict, "the pod of the VM %s mounts the claim of %s", s.VMName,
			s.kindAndName())
	case s.HasPod && s.Drive.Configured && s.holdsLock():
		return true, Plan{}
	case s.VM == nil:
		return because(Pending, ReasonVMMissing, "there is no VM %s: the %s is attached when it runs", s.VMName,
			s.nounForPeople())
	case definesDevice(s.VM, s.Ref):
		return because(failed, ReasonConflict, "the VM %s has %s by its definition: delete the attachment, "+
			"or remove it from the definition", s.VMName, s.kindAndName())
	case s.Other != "" && s.OtherEnds:
		return because(Pending, ReasonConflict, "waiting until %s is detached: its attachment %s is being deleted",
			s.kindAndName(),
			s.Other)
	case s.Other != "":
		return because(failed, ReasonConflict, "the attachment %s is also for %s: delete one of them", s.Other,
			s.kindAndName())
	case s.VM.DeletionTimestamp != nil, s.VM.Spec.DesiredState() != v1.Running, !s.HasPod:
		return because(Pending, ReasonVMStopped, "the VM %s is not running: the %s is attached when it is", s.VMName,
			s.nounForPeople())
	}
	if s.OldPod || s.Earlier && s.isImage() {
		return because(Pending, reasonRestart, "the pod of the VM %s was created by an earlier version of the manager: the %s is "+
			"attached when the VM has been restarted", s.VMName, s.nounForPeople())
	}
	switch what, reason, message := s.Available(); {
	case what == disk.Refuse:
		return because(failed, reason, "%s", message)
	case reason == disk.ReasonMissing, reason == disk.ReasonImageMissing:
		return because(Pending, reason, "%s: it is attached when it is created", message)
	case reason == disk.ReasonInUse:
		return because(Pending, reason, "%s: it is attached to this VM when the other VM has detached it", message)
	case reason == disk.ReasonCopied:
		return because(Pending, reason, "%s: it is attached when that is done", message)
	case what == disk.Wait:
		return because(Pending, reason, "%s", message)
	}
	return true, Plan{}
}

// attachProgress returns the progress of attaching the disk.
func (s Situation) attachProgress() (phase Phase, reason, message string) {
	switch {
	case s.Drive.State == DriveFailed:
		return failed, reasonNotPlugged, s.Drive.Message
	case s.Drive.State == DriveAttached && s.Drive.Configured && s.Export.Ready:
		return Attached, ReasonAttached, ""
	case s.Drive.State == DriveAttached && s.Drive.Configured:
		return inProgress, ReasonExporting, s.servedAgainText()
	case s.Drive.Configured && !s.Drive.Unseen && s.Drive.State == DriveNone:
		return failed, reasonNotPlugged, "the runner can't attach it: the VM type of the machine has no place for what is " +
			"attached while it runs (hotplug.disks), or the runner is of an earlier version"
	case s.Drive.Configured && !s.isServed():
		return inProgress, ReasonExporting, s.withExportReason("the " + s.nounForPeople() +
			"'s export is being started")
	case s.Drive.Configured && s.Drive.Message != "":
		return inProgress, ReasonRequested, "the runner attaches the " + s.nounForPeople() + ": " + s.Drive.Message
	case s.Drive.Configured:
		return inProgress, ReasonRequested, "the runner attaches the " + s.nounForPeople()
	case s.isServed():
		return inProgress, ReasonRequested, "the drive is being written into the VM's configuration: if that takes long, the " +
			"condition Reconciled of the VM shows the reason"
	}
	return inProgress, ReasonExporting, s.withExportReason("the " + s.nounForPeople() + "'s export is being started")
}

// servedAgainText returns the message for a disk that the guest has but that is currently not served.
func (s Situation) servedAgainText() string {
	return s.withExportReason("waiting for the " + s.nounForPeople() + "'s export, which is being restarted")
}

// withExportReason adds the reason why an export isn't ready to a text.
func (s Situation) withExportReason(text string) string {
	if s.Export.Problem == "" {
		return text
	}
	return text + ": " + s.Export.Problem
}

// detachProgress describes what the end of an attachment is waiting for.
func (s Situation) detachProgress() string {
	switch {
	case s.HasPod && s.Drive.State == DriveDetaching:
		return "waiting until the guest lets go of the " + s.nounForPeople()
	case s.HasPod && s.Drive.State == DriveFailed && !s.Drive.Configured:
		return "the guest still has the " + s.nounForPeople() + ": " + s.Drive.Message
	case s.HasPod && s.Drive.inQEMU():
		return "the runner detaches the " + s.nounForPeople()
	}
	return "the " + s.nounForPeople() + "'s export is being ended"
}

// definesDevice reports whether a VM's definition contains the disk or image. The VM's pod then mounts the claim.
func definesDevice(vm *v1.VirtualMachine, name v1.AttachedDeviceRef) bool {
	for _, ref := range objects.DeviceRefs(vm) {
		if string(ref.Kind) == string(name.Kind) && ref.Name == name.Name {
			return true
		}
	}
	return false
}
