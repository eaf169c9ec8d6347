package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// MachineAppName is the value of the label app.kubernetes.io/name of the VolumeSnapshots of VMs.
const MachineAppName = "vm-snapshot"

// MachineVolumeName returns the name of the VolumeSnapshot of a volume of a VM, by its place. Names of
// snapshots end in no such number of another one's: "a" has vms-a-0, and "a-0" has vms-a-0-0.
func MachineVolumeName(of string, place int) string { return fmt.Sprintf("vms-%s-%d", of, place) }

// A MachineSituation is what the future of a snapshot of a VM depends on.
type MachineSituation struct {
	Snapshot *v1.VirtualMachineSnapshot
	// Volumes are the VolumeSnapshots with the labels of a snapshot of that name, by their names.
	Volumes map[string]*Volume
	// Gone is the name of one that the status names, and that is certainly gone.
	Gone string
	// Capturing: they are being made by this process.
	Capturing bool
	// Outcome is what came out of that, or why it can't begin; nil: neither.
	Outcome *Outcome
	Now     time.Time
}

// NextOfMachine returns what is to be done for a snapshot of a VM. Remove is for all VolumeSnapshots that
// are its own.
func NextOfMachine(s MachineSituation) Step {
	is, own := s.Snapshot, len(s.own()) > 0
	switch {
	case is.DeletionTimestamp != nil, s.Capturing, s.Gone != "":
		return Nothing
	case is.Status.Phase == v1.SnapshotFailed:
		if own && is.Status.Consistent == nil {
			return Remove
		}
		return Nothing
	case s.decided() && s.torn():
		return Remove
	case s.decided():
		if s.Missing() != "" {
			return Confirm
		}
		return Nothing
	case own:
		return Remove // of an attempt that has failed, or of a process that was ended
	case s.Outcome != nil, len(s.Volumes) > 0:
		return Nothing
	}
	return Capture
}

// decided reports whether the VolumeSnapshots are made, and it is known how consistent they are.
func (s MachineSituation) decided() bool {
	return s.Snapshot.Status.Consistent != nil || s.Outcome.Made()
}

// torn reports whether the snapshot isn't consistent, and has to be.
func (s MachineSituation) torn() bool { return s.Snapshot.Spec.Consistency() && !s.consistent() }

func (s MachineSituation) consistent() bool {
	if is := s.Snapshot.Status.Consistent; is != nil {
		return *is
	}
	return s.Outcome.Made() && s.Outcome.Consistent
}

// own returns the names and uids of the VolumeSnapshots that are the snapshot's, and stay.
func (s MachineSituation) own() map[string]types.UID {
	own := map[string]types.UID{}
	for name, v := range s.Volumes {
		if v.Owner == s.Snapshot.UID && !v.Leaves {
			own[name] = v.UID
		}
	}
	return own
}

// Own returns the names and uids of the VolumeSnapshots that Remove is for.
func (s MachineSituation) Own() map[string]types.UID { return s.own() }

// volumes returns those that the snapshot consists of.
func (s MachineSituation) volumes() []v1.SnapshotVolume {
	if s.Snapshot.Status.Consistent == nil && s.Outcome.Made() {
		return s.Outcome.Volumes
	}
	return s.Snapshot.Status.Volumes
}

// Missing returns the name of a VolumeSnapshot that the status names and that isn't there, as far as
// is known; "" if all are there.
func (s MachineSituation) Missing() string {
	for _, v := range s.Snapshot.Status.Volumes {
		have := s.Volumes[v.VolumeSnapshotName]
		if have == nil || have.UID != v.VolumeSnapshotUID {
			return v.VolumeSnapshotName
		}
	}
	return ""
}

// StatusOfMachine returns the status of a snapshot of a VM.
func StatusOfMachine(s MachineSituation) v1.VirtualMachineSnapshotStatus {
	of := s.Snapshot
	is := *of.Status.DeepCopy()
	is.ObservedGeneration = of.Generation
	if is.Phase != v1.SnapshotFailed || of.DeletionTimestamp != nil {
		is.Phase, is.Reason, is.Message = s.phase()
	}
	if s.decided() && is.Phase != v1.SnapshotFailed {
		if is.Consistent == nil {
			is.Definition = s.Outcome.Definition
		}
		is.Consistent = new(s.consistent())
		is.Volumes, is.CreationTime = s.made()
	}
	set := func(name string, holds bool, reason, message string) {
		c := metav1.Condition{
			Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: is.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.Now.Truncate(time.Second)),
		}
		if holds {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&is.Conditions, c)
	}
	set(v1.SnapshotConditionReady, is.Phase == v1.SnapshotReady, cmp.Or(is.Reason, ReasonReady), is.Message)
	switch {
	case is.Consistent == nil:
	case *is.Consistent:
		set(v1.SnapshotConditionConsistent, true, ReasonConsistent, "")
	default:
		set(v1.SnapshotConditionConsistent, false, ReasonNotConsistent, s.why())
	}
	return is
}

// made returns the volumes of a snapshot that is made, as their VolumeSnapshots are now, and its moment.
func (s MachineSituation) made() (all []v1.SnapshotVolume, moment *metav1.Time) {
	moment = s.Snapshot.Status.CreationTime
	var latest time.Time
	for _, v := range s.volumes() {
		have := s.Volumes[v.VolumeSnapshotName]
		if have != nil && have.UID == v.VolumeSnapshotUID {
			v.Ready, v.RestoreSize = have.Ready, cmp.Or(have.Size, v.RestoreSize)
			if have.Created != nil && have.Created.After(latest) {
				latest = *have.Created
			}
		}
		all = append(all, v)
	}
	if !latest.IsZero() {
		moment = &metav1.Time{Time: latest.Truncate(time.Second)}
	}
	return all, moment
}

// phase returns the phase of a snapshot that has not failed, with its reason and message.
func (s MachineSituation) phase() (phase v1.SnapshotPhase, reason, message string) {
	switch {
	case s.Snapshot.DeletionTimestamp != nil:
		return v1.SnapshotTerminating, ReasonDeletion, "the snapshot is being deleted"
	case s.Gone != "":
		return v1.SnapshotFailed, ReasonLost,
			fmt.Sprintf("the VolumeSnapshot %s is gone, and what was on the disk with it", s.Gone)
	case s.Capturing:
		return v1.SnapshotInProgress, ReasonCapturing, "a running guest is frozen for it"
	case s.decided() && s.torn():
		return v1.SnapshotFailed, ReasonNotConsistent, s.why() + required
	case s.decided():
		return s.stored()
	case s.Outcome != nil && s.Outcome.Reason == ReasonNotConsistent:
		return v1.SnapshotFailed, ReasonNotConsistent, s.Outcome.Message
	case s.Outcome != nil:
		return v1.SnapshotPending, s.Outcome.Reason, s.Outcome.Message
	case s.foreign() != "":
		return v1.SnapshotPending, ReasonNameTaken, fmt.Sprintf("there is a VolumeSnapshot %s already, which is not "+
			"this snapshot's: waiting until it is gone", s.foreign())
	case len(s.Volumes) > 0:
		return v1.SnapshotInProgress, ReasonCapturing, "what was left of an attempt that was interrupted is being deleted"
	}
	return v1.SnapshotInProgress, ReasonCapturing, "the snapshot is about to be made"
}

// foreign returns the name of a VolumeSnapshot that belongs to something else.
func (s MachineSituation) foreign() string {
	var names []string
	for name, v := range s.Volumes {
		if v.Owner != s.Snapshot.UID {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// stored is for a snapshot whose VolumeSnapshots are made.
func (s MachineSituation) stored() (phase v1.SnapshotPhase, reason, message string) {
	var storing, failures []string
	for _, v := range s.volumes() {
		have := s.Volumes[v.VolumeSnapshotName]
		switch {
		case have != nil && have.Ready:
			continue
		case have != nil && have.Failure != "":
			failures = append(failures, fmt.Sprintf("the storage tries on to store %s: %s", v.PersistentVolumeClaimName,
				have.Failure))
		}
		storing = append(storing, v.PersistentVolumeClaimName)
	}
	message = s.why()
	if len(storing) == 0 {
		return v1.SnapshotReady, "", message
	}
	said := append([]string{"the storage is storing " + strings.Join(storing, ", ")}, failures...)
	if message != "" {
		said = append(said, message)
	}
	return v1.SnapshotInProgress, ReasonStoring, strings.Join(said, "; ")
}

// why returns why a snapshot that is made isn't consistent; "" if it is.
func (s MachineSituation) why() string {
	if s.consistent() {
		return ""
	}
	if c := meta.FindStatusCondition(s.Snapshot.Status.Conditions, v1.SnapshotConditionConsistent); c != nil {
		return c.Message
	}
	text := "crash-consistent, as after a power cut"
	if len(s.volumes()) > 2 { // the runner's data, and more than one disk
		text += ", and each disk at a moment of its own"
	}
	if s.Outcome == nil {
		return text
	}
	return text + ": " + s.Outcome.Message
}

// OfDisk returns what a snapshot of a VM has of a disk, as a snapshot of that disk; nil if there is no
// snapshot.
func OfDisk(of *v1.VirtualMachineSnapshot, disk string) *v1.VirtualDiskSnapshot {
	if of == nil {
		return nil
	}
	is := &v1.VirtualDiskSnapshot{ObjectMeta: of.ObjectMeta}
	is.Spec.VirtualDiskName = disk
	is.Status.Phase, is.Status.Message = of.Status.Phase, of.Status.Message
	at := slices.IndexFunc(of.Status.Volumes, func(v v1.SnapshotVolume) bool { return v.VirtualDiskName == disk })
	switch {
	case at >= 0:
		v := of.Status.Volumes[at]
		is.Status.VolumeSnapshotName, is.Status.VolumeSnapshotUID = v.VolumeSnapshotName, v.VolumeSnapshotUID
		is.Status.RestoreSize, is.Status.Untrusted = v.RestoreSize, v.Untrusted
	case of.Status.Phase == v1.SnapshotReady:
		is.Status.Phase = v1.SnapshotFailed
		is.Status.Message = fmt.Sprintf("it has no VirtualDisk %s", disk)
	}
	return is
}
