package status

import "time"

// Frozen tells that the guest's file systems are frozen, or may be.
type Frozen struct {
	State FreezeState `json:"state"`
	// Since is when the guest agent was asked to freeze them, Until when it is asked to thaw
	// them unless a client asks before.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// FileSystems is how many are frozen; 0 until the agent has said.
	FileSystems int `json:"fileSystems,omitempty"`
	// Message says why they are not thawed yet.
	Message string `json:"message,omitempty"`
}

// FreezeState is how far a freeze has come.
type FreezeState string

// The states of a freeze. What is thawed has none.
const (
	// Freezing: the agent was asked, and has not answered.
	Freezing FreezeState = "Freezing"
	// FSFrozen: the file systems are frozen.
	FSFrozen FreezeState = "Frozen"
	// Thawing: the agent is asked to thaw them until it answers.
	Thawing FreezeState = "Thawing"
)

// A FreezeAnswer is what became of a request to freeze the guest's file systems, or to thaw
// them.
type FreezeAnswer struct {
	// Frozen reports whether they are frozen now.
	Frozen bool `json:"frozen"`
	// FileSystems is how many were frozen, or thawed.
	FileSystems int `json:"fileSystems"`
	// Until is when they are thawed unless a client asks before.
	Until *time.Time `json:"until,omitempty"`
	// Message says why they are not frozen.
	Message string `json:"message,omitempty"`
}

// Froze tells of a freeze, or by nil that it is over.
type Froze struct{ *Frozen }

func (u Froze) apply(s *Status, _ time.Time) error {
	if s.Frozen = u.Frozen; u.Frozen != nil {
		f := *u.Frozen
		f.Since, f.Until = f.Since.UTC().Truncate(time.Millisecond), f.Until.UTC().Truncate(time.Millisecond)
		s.Frozen = &f
	}
	return nil
}
