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
	ReasonStoring       = "Storing" // the driver is storing the captured data
	reasonConsistent    = "Consistent"
	ReasonNotConsistent = "NotConsistent"
	ReasonNameTaken     = "VolumeSnapshotNameTaken"
	ReasonLost          = "VolumeSnapshotLost"
	ReasonDeletion      = "Deleted"
	ReasonMachine       = "VirtualMachineMissing"
	ReasonNoVolume      = "VolumeMissing"
	ReasonDiskInUse     = "DiskInUse" // by another VM
	reasonReady         = "Ready"
)

// Situation contains the state that the decision about a snapshot depends on.
type Situation struct {
	Snapshot *v1.VirtualDiskSnapshot
	Disk     *v1.VirtualDisk // nil: it does not exist
	Volume   *Volume         // the VolumeSnapshot with the snapshot's name; nil: it does not exist
	// Gone reports whether the VolumeSnapshot in the status is certainly gone.
	Gone bool
	// Capturing reports whether this process is creating the VolumeSnapshot.
	Capturing bool
	// Outcome is the outcome of creating it; nil before that.
	Outcome *Outcome
	Now     time.Time
}

// Outcome is the outcome of an attempt to create a VolumeSnapshot. If it was not created, Reason is not empty.
type Outcome struct {
	// Consistent reports whether the disk could not be written at the snapshot's creation time. If it could,
	// Message contains the reason.
	Consistent bool
	// Reason is why the VolumeSnapshot was not created. ReasonNotConsistent is final, other reasons are
	// temporary.
	Reason, Message string
	// Volumes are the volumes of a snapshot of a VM, with the created VolumeSnapshots. Definition is the VM's
	// definition.
	Volumes    []v1.SnapshotVolume
	Definition *v1.VirtualMachineDefinition
}

// Made reports whether the VolumeSnapshot was created.
func (o *Outcome) Made() bool { return o != nil && o.Reason == "" }

// Step is the next step for a snapshot.
type Step int

// The steps.
const (
	Nothing Step = iota
	Capture      // create the VolumeSnapshot
	Confirm      // confirm that the VolumeSnapshot is gone
	Remove       // delete the VolumeSnapshot, which does not meet the requirements
)

// Next returns the next step for a snapshot.
func Next(s Situation) Step {
	is := s.Snapshot
	switch {
	case is.DeletionTimestamp != nil, s.Capturing, s.Gone:
		return Nothing
	case s.Volume != nil && s.ownsSnapshot() && !s.Volume.Leaves && s.isTorn():
		return Remove
	case s.Volume != nil, is.Status.Phase == v1.SnapshotFailed:
		return Nothing
	case is.Status.VolumeSnapshotUID != "":
		return Confirm // never replace a snapshot by a later one
	case s.Outcome.Made() || s.hasJustFailed(), s.Disk == nil || !HasVolume(s.Disk):
		return Nothing
	}
	return Capture
}

// ownsSnapshot reports whether the VolumeSnapshot with the snapshot's name belongs to the snapshot.
func (s Situation) ownsSnapshot() bool {
	uid := s.Snapshot.Status.VolumeSnapshotUID
	return s.Volume.Owner == s.Snapshot.UID && (uid == "" || uid == s.Volume.UID)
}

// hasJustFailed reports whether an attempt has just failed.
func (s Situation) hasJustFailed() bool { return s.Outcome != nil && s.Outcome.Reason != "" }

// consistency returns whether the snapshot is consistent, or nil while it is being created. A manager that has not
// created it doesn't know, and assumes false.
func (s Situation) consistency() *bool {
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

// isTorn reports whether the snapshot is not consistent although it must be.
func (s Situation) isTorn() bool {
	is := s.consistency()
	return s.Snapshot.Spec.RequiredConsistency && is != nil && !*is
}
