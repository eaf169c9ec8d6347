package snapshot

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// required is appended to the reason why an inconsistent snapshot fails.
const required = "; it is asked for a consistent one (spec.requiredConsistency)"

// unknown is the reason why a snapshot from another process isn't consistent.
const unknown = "the manager was stopped while the snapshot was created, so it is unknown whether the guest's file systems " +
	"were frozen"

// StatusOf returns the status of a snapshot.
func StatusOf(s Situation) v1.VirtualDiskSnapshotStatus {
	of := s.Snapshot
	is := of.Status
	is.ObservedGeneration = of.Generation
	if s.Disk != nil && of.Status.Phase != v1.SnapshotReady && is.Untrusted == "" {
		is.Untrusted = s.Disk.Status.Untrusted
	}
	if is.Phase != v1.SnapshotFailed || of.DeletionTimestamp != nil {
		is.Phase, is.Reason, is.Message = s.phaseOf()
	}
	if s.Volume != nil && s.ownsSnapshot() && is.Phase != v1.SnapshotFailed {
		is.VolumeSnapshotName, is.VolumeSnapshotUID = VolumeName(of.Name), s.Volume.UID
		is.RestoreSize = s.Volume.Size
		if s.Volume.Created != nil {
			is.CreationTime = &metav1.Time{Time: s.Volume.Created.Truncate(time.Second)}
		}
		is.Consistent = s.consistency()
	}
	is.Conditions = append([]metav1.Condition(nil), of.Status.Conditions...)
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
	if is.Consistent != nil && *is.Consistent {
		set(v1.SnapshotConditionConsistent, true, reasonConsistent, "")
	} else if is.Consistent != nil {
		set(v1.SnapshotConditionConsistent, false, ReasonNotConsistent, s.whyInconsistent())
	}
	return is
}

// phaseOf returns the phase of a snapshot that has not failed, with its reason and message.
func (s Situation) phaseOf() (phase v1.SnapshotPhase, reason, message string) {
	of, name := s.Snapshot, VolumeName(s.Snapshot.Name)
	switch {
	case of.DeletionTimestamp != nil:
		return v1.SnapshotTerminating, ReasonDeletion, "the snapshot is being deleted"
	case s.Gone, s.Volume != nil && of.Status.VolumeSnapshotUID != "" && !s.ownsSnapshot():
		return v1.SnapshotFailed, ReasonLost,
			fmt.Sprintf("the VolumeSnapshot %s is gone, and what was on the disk with it", name)
	case s.Volume != nil && !s.ownsSnapshot():
		return v1.SnapshotPending, ReasonNameTaken, fmt.Sprintf("there is a VolumeSnapshot %s already, which is not "+
			"this snapshot's: waiting until it is gone", name)
	case s.Capturing:
		return v1.SnapshotInProgress, ReasonCapturing, "a running guest is frozen for it"
	case s.Volume != nil && s.isTorn():
		return v1.SnapshotFailed, ReasonNotConsistent, s.whyInconsistent() + required
	case s.Volume != nil:
		return s.storedPhase()
	case of.Status.VolumeSnapshotUID != "", s.Outcome.Made():
		return v1.SnapshotInProgress, ReasonStoring, fmt.Sprintf("the VolumeSnapshot %s is being read", name)
	case s.hasJustFailed() && s.Outcome.Reason == ReasonNotConsistent:
		return v1.SnapshotFailed, ReasonNotConsistent, s.Outcome.Message
	case s.hasJustFailed():
		return v1.SnapshotPending, s.Outcome.Reason, s.Outcome.Message
	case s.Disk == nil:
		return v1.SnapshotPending, ReasonDiskMissing, fmt.Sprintf("there is no VirtualDisk %s: the snapshot is "+
			"created when the disk exists", of.Spec.VirtualDiskName)
	case !HasVolume(s.Disk):
		return v1.SnapshotPending, ReasonDiskNotReady, fmt.Sprintf("the VirtualDisk %s is %s: %s", s.Disk.Name,
			s.Disk.Status.Phase, cmp.Or(s.Disk.Status.Message, "the snapshot is created when it has a volume"))
	}
	return v1.SnapshotInProgress, ReasonCapturing, "the snapshot is about to be created"
}

// storedPhase returns the phase of a snapshot with its own VolumeSnapshot.
func (s Situation) storedPhase() (phase v1.SnapshotPhase, reason, message string) {
	message = s.whyInconsistent()
	if s.Volume.Ready {
		return v1.SnapshotReady, "", message
	}
	storing := "the storage is creating the snapshot"
	if s.Volume.Failure != "" {
		storing = "the storage tries on: " + s.Volume.Failure
	}
	if message != "" {
		storing += "; " + message
	}
	return v1.SnapshotInProgress, ReasonStoring, storing
}

// whyInconsistent returns the reason why a snapshot with a VolumeSnapshot isn't consistent, or "".
func (s Situation) whyInconsistent() string {
	is := s.consistency()
	switch {
	case is == nil || *is:
		return ""
	case s.Outcome.Made():
		return "crash-consistent, as after a power cut: " + s.Outcome.Message
	case s.Snapshot.Status.Consistent != nil: // the status already has the reason
		c := meta.FindStatusCondition(s.Snapshot.Status.Conditions, v1.SnapshotConditionConsistent)
		if c != nil {
			return c.Message
		}
	}
	return "crash-consistent, as after a power cut: " + unknown
}
