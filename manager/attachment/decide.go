package attachment

import (
	"fmt"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// Phase is the state of an attachment in one word.
type Phase = v1.AttachmentPhase

// The phases.
const (
	Pending     = v1.AttachmentPending
	InProgress  = v1.AttachmentInProgress
	Attached    = v1.AttachmentAttached
	Failed      = v1.AttachmentFailed
	Terminating = v1.AttachmentTerminating
)

// Reasons, besides those of package disk why a VM doesn't get it.
const (
	ReasonVMMissing  = "VirtualMachineMissing"
	ReasonVMStopped  = "VirtualMachineNotRunning"
	ReasonConflict   = "Conflict" // the disk comes into the VM otherwise
	ReasonExporting  = "ExportStarting"
	ReasonRequested  = "AttachmentRequestSent"
	ReasonNotPlugged = "NotAttached" // the runner or the guest can't
	ReasonDetaching  = "Detaching"
	ReasonAttached   = "Attached"
	ReasonRestart    = "RestartRequired" // the VM's pod was made without what it takes
	ReasonRefused    = "Refused"         // by the API server
)

// DriveState is what the runner says of a drive.
type DriveState string

// The states. None: QEMU has no such drive.
const (
	DriveNone      DriveState = ""
	DriveAttaching DriveState = "Attaching"
	DriveAttached  DriveState = "Attached"
	DriveDetaching DriveState = "Detaching"
	DriveFailed    DriveState = "Failed" // to be attached or, if it isn't configured, to be detached
)

// A Drive is what is known of an attachment's drive in the VM.
type Drive struct {
	// Configured: the configuration that is written for the runner has it. Unseen: the runner has not
	// reported yet about that configuration, and may follow the one before.
	Configured, Unseen bool
	// State is what the runner in the VM's present pod has said last, with a message for people.
	State   DriveState
	Message string
}

// inQEMU reports whether the machine has the disk, or may be about to get it.
func (d Drive) inQEMU() bool {
	return d.Configured || d.Unseen || d.State != DriveNone
}

// had reports whether a machine whose runner has said nothing else since has the disk, or had it.
func (d Drive) had() bool {
	return d.State == DriveAttached || d.State == DriveDetaching || d.State == DriveNone && d.Unseen
}

// An Export is what there is of the pod that serves the disk.
type Export struct {
	Exists bool
	Ready  bool // it serves
	Ending bool // it is being deleted
	// Over: its pod has ended and is not started again, as one that was evicted.
	Over bool
	// Problem is why it isn't ready, a clause for people; "" if that isn't known.
	Problem string
}

// A Situation is what the future of an attachment depends on.
type Situation struct {
	VMName string
	// Ref names the disk or image.
	Ref v1.AttachedDeviceRef
	// Deleted: the disk is to be detached.
	Deleted bool
	// Other is an older attachment of the same disk; "" if there is none. OtherEnds: it is deleted.
	Other     string
	OtherEnds bool
	// VM is nil if there is none. HasPod: there is a pod of it, also one that ends. OldPod: it was
	// made without the folder for certificates, by an earlier version of the manager.
	VM             *v1.VirtualMachine
	HasPod, OldPod bool
	// Awaits: the runner in that pod knows CD drives of servers. Earlier: it is of a version that doesn't.
	// Those, and one that has not reported yet, get no drive of an image.
	Awaits, Earlier bool
	// Disk is nil if there is none; an image is one, too (disk.AsDisk).
	Disk *v1.VirtualDisk
	// Mounted: a pod of the VM mounts the claim, or its StatefulSet may make one that does.
	Mounted bool
	Export  Export
	Drive   Drive
}

// A Plan is what is to be there, and what the status says.
type Plan struct {
	// Take: the VM is to get the disk's lock, with the version of the disk that was read.
	Take bool
	// Export: it is to exist. It is made only after the lock was taken.
	Export bool
	// Renew: its pod is to be deleted, as another one is to take its place.
	Renew bool
	// Drive is to be in the VM's configuration.
	Drive bool
	// Done: nothing is left of a deleted attachment.
	Done bool

	Phase           Phase
	Reason, Message string
}

// Decide returns what is to be done for an attachment.
func Decide(s Situation) Plan {
	wanted, p := s.wanted()
	held := s.held()
	switch {
	case wanted && !held:
		p.Take = true
		p.Phase, p.Reason, p.Message = InProgress, ReasonExporting, "the "+s.noun()+" is being reserved for the VM"
	case wanted:
		p.Export = true
		p.Drive = s.served() && (s.Awaits || !s.image()) || s.Drive.Configured
		p.Phase, p.Reason, p.Message = s.progress()
	}
	// What QEMU has open must be served until it has let go of it, if there is a QEMU. To detach a disk
	// that isn't served would stop the guest for as long as QEMU waits for the server.
	if !wanted && s.HasPod && held && s.Drive.Configured && s.Drive.had() && !s.served() {
		p.Export, p.Drive = true, true
		p.Message = s.again()
	} else if s.HasPod && held && s.Drive.inQEMU() && (s.Export.Exists || s.Drive.State != DriveNone && !s.Mounted) {
		p.Export = true
	}
	p.Renew = p.Export && s.Export.Over && !s.Export.Ending
	p.Done = s.Deleted && !s.Export.Exists && !(s.HasPod && s.Drive.inQEMU())
	return p
}

// image reports whether it is one, which any number of VMs may have.
func (s Situation) image() bool { return s.Ref.Kind.IsImage() }

// noun is what people call it.
func (s Situation) noun() string {
	if s.image() {
		return "image"
	}
	return "disk"
}

// what is its kind, with its name.
func (s Situation) what() string { return "the " + string(s.Ref.Kind) + " " + s.Ref.Name }

// held reports whether the VM has the disk's lock. An image has none: it is enough that it is there, or was when its
// export was made.
func (s Situation) held() bool {
	if s.image() {
		return s.Disk != nil || s.Export.Exists
	}
	return s.Disk != nil && disk.Holder(s.Disk) == s.VMName
}

// Available decides whether the VM may have the disk or image.
func (s Situation) Available() (what disk.Answer, reason, message string) {
	if s.image() {
		return disk.AvailableImage(v1.BlockDeviceKind(s.Ref.Kind), s.Ref.Name, s.Disk)
	}
	return disk.Available(s.VMName, s.Ref.Name, s.Disk)
}

// served reports whether the export serves the disk, and isn't about to end.
func (s Situation) served() bool { return s.Export.Ready && !s.Export.Ending }

// wanted reports whether the disk is to be in the VM now, and why it isn't. What is attached stays
// as long as the VM's pod, also if it wouldn't be attached now: a guest that shuts down needs it.
func (s Situation) wanted() (bool, Plan) {
	because := func(phase Phase, reason, format string, args ...any) (bool, Plan) {
		return false, Plan{Phase: phase, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Deleted:
		return because(Terminating, ReasonDetaching, "%s", s.detaching())
	case s.Mounted: // also by a pod that is made only now
		return because(Pending, ReasonConflict, "the pod of the VM %s mounts the claim of %s", s.VMName, s.what())
	case s.HasPod && s.Drive.Configured && s.held():
		return true, Plan{}
	case s.VM == nil:
		return because(Pending, ReasonVMMissing, "there is no VM %s: the %s is attached when it runs", s.VMName,
			s.noun())
	case Names(s.VM, s.Ref):
		return because(Failed, ReasonConflict, "the VM %s has %s by its definition: delete the attachment, "+
			"or remove it from the definition", s.VMName, s.what())
	case s.Other != "" && s.OtherEnds:
		return because(Pending, ReasonConflict, "waiting until %s is detached, whose attachment %s is being deleted", s.what(),
			s.Other)
	case s.Other != "":
		return because(Failed, ReasonConflict, "the attachment %s is for %s, too: delete one of them", s.Other,
			s.what())
	case s.VM.DeletionTimestamp != nil, s.VM.Spec.DesiredState() != v1.Running, !s.HasPod:
		return because(Pending, ReasonVMStopped, "the VM %s is not running: the %s is attached when it is", s.VMName,
			s.noun())
	}
	if s.OldPod || s.Earlier && s.image() {
		return because(Pending, ReasonRestart, "the pod of the VM %s was made by an earlier version of the manager: the %s is "+
			"attached when the VM has been restarted", s.VMName, s.noun())
	}
	switch what, reason, message := s.Available(); {
	case what == disk.Refuse:
		return because(Failed, reason, "%s", message)
	case reason == disk.ReasonMissing, reason == disk.ReasonImageMissing:
		return because(Pending, reason, "%s: it is attached when it is created", message)
	case reason == disk.ReasonInUse:
		return because(Pending, reason, "%s: it is attached to this VM when the other one has left it", message)
	case reason == disk.ReasonCopied:
		return because(Pending, reason, "%s: it is attached when that is done", message)
	case what == disk.Wait:
		return because(Pending, reason, "%s", message)
	}
	return true, Plan{}
}

// progress says how far it is to attach the disk.
func (s Situation) progress() (phase Phase, reason, message string) {
	switch {
	case s.Drive.State == DriveFailed:
		return Failed, ReasonNotPlugged, s.Drive.Message
	case s.Drive.State == DriveAttached && s.Drive.Configured && s.Export.Ready:
		return Attached, ReasonAttached, ""
	case s.Drive.State == DriveAttached && s.Drive.Configured:
		return InProgress, ReasonExporting, s.again()
	case s.Drive.Configured && !s.Drive.Unseen && s.Drive.State == DriveNone:
		return Failed, ReasonNotPlugged, "the runner can't attach it: the VM type of the machine has no place for what is " +
			"attached while it runs (hotplug.disks), or the runner is of an earlier version"
	case s.Drive.Configured && !s.served():
		return InProgress, ReasonExporting, s.because("the " + s.noun() + "'s export is being started")
	case s.Drive.Configured && s.Drive.Message != "":
		return InProgress, ReasonRequested, "the runner attaches the " + s.noun() + ": " + s.Drive.Message
	case s.Drive.Configured:
		return InProgress, ReasonRequested, "the runner attaches the " + s.noun()
	case s.served():
		return InProgress, ReasonRequested, "the drive is being written into the VM's configuration: if that takes long, the " +
			"condition Reconciled of the VM says why"
	}
	return InProgress, ReasonExporting, s.because("the " + s.noun() + "'s export is being started")
}

// again says that a disk which the guest has is not served just now.
func (s Situation) again() string {
	return s.because("waiting for the " + s.noun() + "'s export, which is started again")
}

// because adds to a text about an export why it isn't ready.
func (s Situation) because(text string) string {
	if s.Export.Problem == "" {
		return text
	}
	return text + ": " + s.Export.Problem
}

// detaching says what the end of an attachment waits for.
func (s Situation) detaching() string {
	switch {
	case s.HasPod && s.Drive.State == DriveDetaching:
		return "waiting until the guest lets go of the " + s.noun()
	case s.HasPod && s.Drive.State == DriveFailed && !s.Drive.Configured:
		return "the guest still has the " + s.noun() + ": " + s.Drive.Message
	case s.HasPod && s.Drive.inQEMU():
		return "the runner detaches the " + s.noun()
	}
	return "the " + s.noun() + "'s export is being ended"
}

// Names reports whether a VM's definition has the disk or image: then its pod mounts the claim.
func Names(vm *v1.VirtualMachine, name v1.AttachedDeviceRef) bool {
	for _, ref := range objects.DeviceRefs(vm) {
		if string(ref.Kind) == string(name.Kind) && ref.Name == name.Name {
			return true
		}
	}
	return false
}
