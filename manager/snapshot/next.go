package snapshot

import (
	"time"

	v1 "vmop/api/v1"
)

// Reasons of phases.
const (
	ReasonDiskMissing   = "DiskMissing"
	ReasonDiskNotReady  = "DiskNotReady"
	ReasonUnsupported   = "SnapshotsUnsupported" // by the cluster or by the disk's driver
	ReasonNoClass       = "VolumeSnapshotClassMissing"
	ReasonRefused       = "Refused" // by the API server
	ReasonBusy          = "GuestBusy"
	ReasonCapturing     = "Capturing"
	ReasonStoring       = "Storing" // the moment is captured, and the driver stores it
	ReasonConsistent    = "Consistent"
	ReasonNotConsistent = "NotConsistent"
	ReasonNameTaken     = "VolumeSnapshotNameTaken"
	ReasonLost          = "VolumeSnapshotLost"
	ReasonDeletion      = "Deleted"
	ReasonMachine       = "VirtualMachineMissing"
	ReasonNoVolume      = "VolumeMissing"
	ReasonDiskInUse     = "DiskInUse" // by another VM
	ReasonReady         = "Ready"
)

// A Situation is what the future of a snapshot depends on.
type Situation struct {
	Snapshot *v1.VirtualDiskSnapshot
	Disk     *v1.VirtualDisk // nil: there is none
	Volume   *Volume         // the VolumeSnapshot of the snapshot's name; nil: there is none
	// Gone: the VolumeSnapshot that the status names is certainly gone.
	Gone bool
	// Capturing: it is being made by this process.
	Capturing bool
	// Outcome is what came out of that; nil: nothing yet.
	Outcome *Outcome
	Now     time.Time
}

// An Outcome is what came out of an attempt to make a VolumeSnapshot. Either the VolumeSnapshot was
// made, or Reason says why not.
type Outcome struct {
	// Consistent: nothing could be written at the moment that the snapshot shows. Message says
	// why not.
	Consistent bool
	// Reason why it was not made, for now; with ReasonNotConsistent for good.
	Reason, Message string
	// Volumes of a snapshot of a VM, with the VolumeSnapshots that were made, and Definition, the
	// VM's.
	Volumes    []v1.SnapshotVolume
	Definition *v1.VirtualMachineDefinition
}

// Made reports whether there is a VolumeSnapshot.
func (o *Outcome) Made() bool { return o != nil && o.Reason == "" }

// A Step is what is to be done for a snapshot.
type Step int

// The steps.
const (
	Nothing Step = iota
	Capture      // make the VolumeSnapshot
	Confirm      // that the VolumeSnapshot is gone
	Remove       // the VolumeSnapshot, which is not what was asked for
)

// Next returns what is to be done for a snapshot.
func Next(s Situation) Step {
	is := s.Snapshot
	switch {
	case is.DeletionTimestamp != nil, s.Capturing, s.Gone:
		return Nothing
	case s.Volume != nil && s.ours() && !s.Volume.Leaves && s.inconsistent():
		return Remove
	case s.Volume != nil, is.Status.Phase == v1.SnapshotFailed:
		return Nothing
	case is.Status.VolumeSnapshotUID != "":
		return Confirm // what showed a moment is not made again, of another one
	case s.Outcome.Made() || s.refused(), s.Disk == nil || !HasVolume(s.Disk):
		return Nothing
	}
	return Capture
}

// ours reports whether the VolumeSnapshot of the snapshot's name is the snapshot's.
func (s Situation) ours() bool {
	uid := s.Snapshot.Status.VolumeSnapshotUID
	return s.Volume.Owner == s.Snapshot.UID && (uid == "" || uid == s.Volume.UID)
}

// refused reports whether an attempt has just failed.
func (s Situation) refused() bool { return s.Outcome != nil && s.Outcome.Reason != "" }

// consistent returns whether the snapshot is, nil if it is being made. A manager that has not made
// it itself doesn't know.
func (s Situation) consistent() *bool {
	switch {
	case s.Snapshot.Status.Consistent != nil:
		return s.Snapshot.Status.Consistent
	case s.Outcome.Made():
		return &s.Outcome.Consistent
	case s.Capturing || s.Volume == nil:
		return nil
	}
	return new(false)
}

// inconsistent reports whether the snapshot is not consistent, and has to be.
func (s Situation) inconsistent() bool {
	is := s.consistent()
	return s.Snapshot.Spec.RequiredConsistency && is != nil && !*is
}
