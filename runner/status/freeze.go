package status

import "time"

// Frozen reports that the guest's file systems are frozen, or may be.
type Frozen struct {
	State FreezeState `json:"state"`
	// Since is when the guest agent was asked to freeze them. Until is when it is asked to thaw them unless a
	// client asks earlier.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// FileSystems is the number of frozen file systems; 0 until the agent has answered.
	FileSystems int `json:"fileSystems,omitempty"`
	// Message is the reason why they are not thawed yet.
	Message string `json:"message,omitempty"`
}

// FreezeState is the progress of a freeze.
type FreezeState string

// The states of a freeze. Thawed file systems have no state.
const (
	// Freezing: the agent was asked, and has not answered.
	Freezing FreezeState = "Freezing"
	// FSFrozen: the file systems are frozen.
	FSFrozen FreezeState = "Frozen"
	// Thawing: the agent is asked to thaw them until it answers.
	Thawing FreezeState = "Thawing"
)

// A FreezeAnswer is the result of a request to freeze or thaw the guest's file systems.
type FreezeAnswer struct {
	// Frozen reports whether they are frozen now.
	Frozen bool `json:"frozen"`
	// FileSystems is the number of file systems that were frozen or thawed.
	FileSystems int `json:"fileSystems"`
	// Until is when they are thawed unless a client asks earlier.
	Until *time.Time `json:"until,omitempty"`
	// Message is the reason why they are not frozen.
	Message string `json:"message,omitempty"`
}

// Froze reports a freeze; nil reports that it has ended.
type Froze struct{ *Frozen }

func (u Froze) applyTo(s *Status, _ time.Time) error {
	if s.Frozen = u.Frozen; u.Frozen != nil {
		f := *u.Frozen
		f.Since, f.Until = f.Since.UTC().Truncate(time.Millisecond), f.Until.UTC().Truncate(time.Millisecond)
		s.Frozen = &f
	}
	return nil
}
