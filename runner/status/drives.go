package status

import (
	"slices"
	"time"
)

// A Drive is one that was attached while the guest runs, or is to be.
type Drive struct {
	// Name is its serial number.
	Name string `json:"name"`
	// State is one of the DriveStates.
	State string `json:"state"`
	// Message says what is waited for, or what is wrong; it may be empty.
	Message string `json:"message,omitempty"`
	// Capacity is its size in bytes; 0: not known yet.
	Capacity int64 `json:"capacity,omitempty"`
}

// The states of a Drive.
const (
	DriveAttaching = "Attaching"
	DriveAttached  = "Attached"
	DriveDetaching = "Detaching"
	DriveFailed    = "Failed"
)

// Drives are all of them.
type Drives []Drive

func (u Drives) apply(s *Status, _ time.Time) error {
	s.Drives = slices.Clone(u)
	return nil
}

// DrivesRevision is the revision of the configuration by which the Drives are all that there are.
type DrivesRevision int64

func (u DrivesRevision) apply(s *Status, _ time.Time) error {
	s.DrivesRevision = int64(u)
	return nil
}
