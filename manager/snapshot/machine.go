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

// MachineVolumeName returns the name of the VolumeSnapshot of a VM's volume, by the volume's place. Names are
// unambiguous because the place is always last: snapshot "a" has vms-a-0, and "a-0" has vms-a-0-0.
func MachineVolumeName(of string, place int) string { return fmt.Sprintf("vms-%s-%d", of, place) }

// MachineSituation contains the state that the decision about a snapshot of a VM depends on.
type MachineSituation struct {
	Snapshot *v1.VirtualMachineSnapshot
	// Volumes are the VolumeSnapshots labeled with the snapshot's name, by their own names.
	Volumes map[string]*Volume
	// Gone is the name of a VolumeSnapshot in the status that is certainly gone, or "".
	Gone string
	// Capturing reports whether this process is creating the VolumeSnapshots.
	Capturing bool
	// Outcome is the outcome of creating them, or the reason why that can't start. Otherwise it is nil.
	Outcome *Outcome
	Now     time.Time
}

// NextOfMachine returns the next step for a snapshot of a VM. Remove applies to all its own VolumeSnapshots.
func NextOfMachine(s MachineSituation) Step {
	is, own := s.Snapshot, len(s.ownSnapshots()) > 0
	switch {
	case is.DeletionTimestamp != nil, s.Capturing, s.Gone != "":
		return Nothing
	case is.Status.Phase == v1.SnapshotFailed:
		if own && is.Status.Consistent == nil {
			return Remove
		}
		return Nothing
	case s.isDecided() && s.isTorn():
		return Remove
	case s.isDecided():
		if s.Missing() != "" {
			return Confirm
		}
		return Nothing
	case own:
		return Remove // left by a failed attempt or a killed process
	case s.Outcome != nil, len(s.Volumes) > 0:
		return Nothing
	}
	return Capture
}

// isDecided reports whether the VolumeSnapshots have been created and their consistency is known.
func (s MachineSituation) isDecided() bool {
	return s.Snapshot.Status.Consistent != nil || s.Outcome.Made()
}

// isTorn reports whether the snapshot isn't consistent although it must be.
func (s MachineSituation) isTorn() bool { return s.Snapshot.Spec.Consistency() && !s.isConsistent() }

func (s MachineSituation) isConsistent() bool {
	if is := s.Snapshot.Status.Consistent; is != nil {
		return *is
	}
	return s.Outcome.Made() && s.Outcome.Consistent
}

// ownSnapshots returns the names and UIDs of the snapshot's own VolumeSnapshots that are not being deleted.
func (s MachineSituation) ownSnapshots() map[string]types.UID {
	own := map[string]types.UID{}
	for name, v := range s.Volumes {
		if v.Owner == s.Snapshot.UID && !v.Leaves {
			own[name] = v.UID
		}
	}
	return own
}

// Own returns the names and UIDs of the VolumeSnapshots that Remove applies to.
func (s MachineSituation) Own() map[string]types.UID { return s.ownSnapshots() }

// snapshotVolumes returns the volumes of the snapshot.
func (s MachineSituation) snapshotVolumes() []v1.SnapshotVolume {
	if s.Snapshot.Status.Consistent == nil && s.Outcome.Made() {
		return s.Outcome.Volumes
	}
	return s.Snapshot.Status.Volumes
}

// Missing returns the name of a VolumeSnapshot in the status that is missing from Volumes, or "".
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
		is.Phase, is.Reason, is.Message = s.phaseOf()
	}
	if s.isDecided() && is.Phase != v1.SnapshotFailed {
		if is.Consistent == nil {
			is.Definition = s.Outcome.Definition
		}
		is.Consistent = new(s.isConsistent())
		is.Volumes, is.CreationTime = s.madeVolumes()
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
	set(v1.SnapshotConditionReady, is.Phase == v1.SnapshotReady, cmp.Or(is.Reason, reasonReady), is.Message)
	switch {
	case is.Consistent == nil:
	case *is.Consistent:
		set(v1.SnapshotConditionConsistent, true, reasonConsistent, "")
	default:
		set(v1.SnapshotConditionConsistent, false, ReasonNotConsistent, s.whyInconsistent())
	}
	return is
}

// madeVolumes returns the volumes of a created snapshot, with the current state of their VolumeSnapshots, and its
// creation time.
func (s MachineSituation) madeVolumes() (all []v1.SnapshotVolume, moment *metav1.Time) {
	moment = s.Snapshot.Status.CreationTime
	var latest time.Time
	for _, v := range s.snapshotVolumes() {
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

// phaseOf returns the phase of a snapshot that has not failed, with its reason and message.
func (s MachineSituation) phaseOf() (phase v1.SnapshotPhase, reason, message string) {
	switch {
	case s.Snapshot.DeletionTimestamp != nil:
		return v1.SnapshotTerminating, ReasonDeletion, "the snapshot is being deleted"
	case s.Gone != "":
		return v1.SnapshotFailed, ReasonLost,
			fmt.Sprintf("the VolumeSnapshot %s is gone, and what was on the disk with it", s.Gone)
	case s.Capturing:
		return v1.SnapshotInProgress, ReasonCapturing, "a running guest is frozen for it"
	case s.isDecided() && s.isTorn():
		return v1.SnapshotFailed, ReasonNotConsistent, s.whyInconsistent() + required
	case s.isDecided():
		return s.storedPhase()
	case s.Outcome != nil && s.Outcome.Reason == ReasonNotConsistent:
		return v1.SnapshotFailed, ReasonNotConsistent, s.Outcome.Message
	case s.Outcome != nil:
		return v1.SnapshotPending, s.Outcome.Reason, s.Outcome.Message
	case s.foreignSnapshot() != "":
		return v1.SnapshotPending, ReasonNameTaken, fmt.Sprintf("there is a VolumeSnapshot %s already, which is not "+
			"this snapshot's: waiting until it is gone", s.foreignSnapshot())
	case len(s.Volumes) > 0:
		return v1.SnapshotInProgress, ReasonCapturing, "what was left of an attempt that was interrupted is being deleted"
	}
	return v1.SnapshotInProgress, ReasonCapturing, "the snapshot is about to be created"
}

// foreignSnapshot returns the name of a VolumeSnapshot with another owner, or "".
func (s MachineSituation) foreignSnapshot() string {
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

// storedPhase returns the phase of a snapshot with existing VolumeSnapshots.
func (s MachineSituation) storedPhase() (phase v1.SnapshotPhase, reason, message string) {
	var storing, failures []string
	for _, v := range s.snapshotVolumes() {
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
	message = s.whyInconsistent()
	if len(storing) == 0 {
		return v1.SnapshotReady, "", message
	}
	said := append([]string{"the storage is storing " + strings.Join(storing, ", ")}, failures...)
	if message != "" {
		said = append(said, message)
	}
	return v1.SnapshotInProgress, ReasonStoring, strings.Join(said, "; ")
}

// whyInconsistent returns the reason why a created snapshot isn't consistent, or "".
func (s MachineSituation) whyInconsistent() string {
	if s.isConsistent() {
		return ""
	}
	if c := meta.FindStatusCondition(s.Snapshot.Status.Conditions, v1.SnapshotConditionConsistent); c != nil {
		return c.Message
	}
	text := "crash-consistent, as after a power cut"
	if len(s.snapshotVolumes()) > 2 { // the runner's data, and more than one disk
		text += ", and each disk at a different time"
	}
	if s.Outcome == nil {
		return text
	}
	return text + ": " + s.Outcome.Message
}

// OfDisk returns the part of a VM snapshot that belongs to a disk, as a snapshot of that disk; nil if of is nil.
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
