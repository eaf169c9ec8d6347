package status

import (
	"slices"
	"time"
)

// A Drive is a drive that was attached while the guest is running, or is about to be.
type Drive struct {
	// Name is the drive's serial number.
	Name string `json:"name"`
	// State is one of the Drive constants.
	State string `json:"state"`
	// Message shows what the drive waits for, or what failed; it may be empty.
	Message string `json:"message,omitempty"`
	// Capacity is the drive's size in bytes; 0 means not known yet.
	Capacity int64 `json:"capacity,omitempty"`
}

// The states of a Drive.
const (
	DriveAttaching = "Attaching"
	DriveAttached  = "Attached"
	DriveDetaching = "Detaching"
	DriveFailed    = "Failed"
)

// Drives replaces the list of drives.
type Drives []Drive

func (u Drives) applyTo(s *Status, _ time.Time) error {
	s.Drives = slices.Clone(u)
	return nil
}

// DrivesRevision is the revision of the configuration that the list of Drives is complete for.
type DrivesRevision int64

func (u DrivesRevision) applyTo(s *Status, _ time.Time) error {
	s.DrivesRevision = int64(u)
	return nil
}
