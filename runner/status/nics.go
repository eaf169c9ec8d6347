package status

import (
	"slices"
	"time"
)

// A NIC is a network card that was plugged in while the guest is running, or is about to be.
type NIC struct {
	// MAC is the card's hardware address.
	MAC string `json:"mac"`
	// State is one of the NIC constants.
	State string `json:"state"`
	// Message shows what the card waits for, or what failed; it may be empty.
	Message string `json:"message,omitempty"`
}

// The states of a NIC.
const (
	NICPlugging   = "Plugging"
	NICPlugged    = "Plugged"
	NICUnplugging = "Unplugging"
	NICFailed     = "Failed"
)

// NICs replaces the list of network cards.
type NICs []NIC

func (u NICs) applyTo(s *Status, _ time.Time) error {
	s.NICs = slices.Clone(u)
	return nil
}
