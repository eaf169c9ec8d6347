package snapshot

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// required says why a snapshot that isn't consistent fails.
const required = "; it is asked for a consistent one (spec.requiredConsistency)"

// unknown is why a snapshot isn't consistent that another process has made.
const unknown = "the manager was ended while the snapshot was made, so it is not known whether the guest's file systems " +
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
		is.Phase, is.Reason, is.Message = s.phase()
	}
	if s.Volume != nil && s.ours() && is.Phase != v1.SnapshotFailed {
		is.VolumeSnapshotName, is.VolumeSnapshotUID = VolumeName(of.Name), s.Volume.UID
		is.RestoreSize = s.Volume.Size
		if s.Volume.Created != nil {
			is.CreationTime = &metav1.Time{Time: s.Volume.Created.Truncate(time.Second)}
		}
		is.Consistent = s.consistent()
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
	set(v1.SnapshotConditionReady, is.Phase == v1.SnapshotReady, cmp.Or(is.Reason, ReasonReady), is.Message)
	if is.Consistent != nil && *is.Consistent {
		set(v1.SnapshotConditionConsistent, true, ReasonConsistent, "")
	} else if is.Consistent != nil {
		set(v1.SnapshotConditionConsistent, false, ReasonNotConsistent, s.why())
	}
	return is
}

// phase returns the phase of a snapshot that has not failed, with its reason and message.
func (s Situation) phase() (phase v1.SnapshotPhase, reason, message string) {
	of, name := s.Snapshot, VolumeName(s.Snapshot.Name)
	switch {
	case of.DeletionTimestamp != nil:
		return v1.SnapshotTerminating, ReasonDeletion, "the snapshot is being deleted"
	case s.Gone, s.Volume != nil && of.Status.VolumeSnapshotUID != "" && !s.ours():
		return v1.SnapshotFailed, ReasonLost,
			fmt.Sprintf("the VolumeSnapshot %s is gone, and what was on the disk with it", name)
	case s.Volume != nil && !s.ours():
		return v1.SnapshotPending, ReasonNameTaken, fmt.Sprintf("there is a VolumeSnapshot %s already, which is not "+
			"this snapshot's: waiting until it is gone", name)
	case s.Capturing:
		return v1.SnapshotInProgress, ReasonCapturing, "a running guest is frozen for it"
	case s.Volume != nil && s.inconsistent():
		return v1.SnapshotFailed, ReasonNotConsistent, s.why() + required
	case s.Volume != nil:
		return s.stored()
	case of.Status.VolumeSnapshotUID != "", s.Outcome.Made():
		return v1.SnapshotInProgress, ReasonStoring, fmt.Sprintf("the VolumeSnapshot %s is being read", name)
	case s.refused() && s.Outcome.Reason == ReasonNotConsistent:
		return v1.SnapshotFailed, ReasonNotConsistent, s.Outcome.Message
	case s.refused():
		return v1.SnapshotPending, s.Outcome.Reason, s.Outcome.Message
	case s.Disk == nil:
		return v1.SnapshotPending, ReasonDiskMissing, fmt.Sprintf("there is no VirtualDisk %s: the snapshot is made "+
			"when it is created", of.Spec.VirtualDiskName)
	case !HasVolume(s.Disk):
		return v1.SnapshotPending, ReasonDiskNotReady, fmt.Sprintf("the VirtualDisk %s is %s: %s", s.Disk.Name,
			s.Disk.Status.Phase, cmp.Or(s.Disk.Status.Message, "the snapshot is made when it has a volume"))
	}
	return v1.SnapshotInProgress, ReasonCapturing, "the snapshot is about to be made"
}

// stored is for a snapshot with a VolumeSnapshot of its own.
func (s Situation) stored() (phase v1.SnapshotPhase, reason, message string) {
	message = s.why()
	if s.Volume.Ready {
		return v1.SnapshotReady, "", message
	}
	storing := "the storage is making the snapshot"
	if s.Volume.Failure != "" {
		storing = "the storage tries on: " + s.Volume.Failure
	}
	if message != "" {
		storing += "; " + message
	}
	return v1.SnapshotInProgress, ReasonStoring, storing
}

// why returns why a snapshot with a VolumeSnapshot isn't consistent; "" if it is.
func (s Situation) why() string {
	is := s.consistent()
	switch {
	case is == nil || *is:
		return ""
	case s.Outcome.Made():
		return "crash-consistent, as after a power cut: " + s.Outcome.Message
	case s.Snapshot.Status.Consistent != nil: // it was said before
		c := meta.FindStatusCondition(s.Snapshot.Status.Conditions, v1.SnapshotConditionConsistent)
		if c != nil {
			return c.Message
		}
	}
	return "crash-consistent, as after a power cut: " + unknown
}
