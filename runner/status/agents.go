package status

import (
	"time"

	"vmop/vmstatus"
)

// Answered tells that the guest agent has answered: a VM that boots, or is running, has booted.
// In every other state it changes nothing.
type Answered struct{}

// Unanswered tells of a guest that boots that its agent has not answered, and may never, in
// words for people. In every other state it changes nothing.
type Unanswered string

// WasReset tells that the guest was reset: what its agents have said is over,
// and a VM that runs boots again.
type WasReset struct{}

// LoginFailure tells why the log-in agent does not log in who is wanted, in its
// own words; empty when it does, or is at it.
type LoginFailure string

func (Answered) apply(s *Status, now time.Time) error {
	if s.State != vmstatus.StateBooting && s.State != vmstatus.StateRunning {
		return nil
	}
	return Entered{State: vmstatus.StateBooted}.apply(s, now)
}

func (u Unanswered) apply(s *Status, now time.Time) error {
	if s.State != vmstatus.StateBooting {
		return nil
	}
	return Entered{State: vmstatus.StateRunning, Message: string(u)}.apply(s, now)
}

func (WasReset) apply(s *Status, now time.Time) error {
	s.Guest = nil
	_ = VmopAgent(false).apply(s, now) // it has no error
	if !s.State.Active() {
		return nil
	}
	return Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonVMReset}.apply(s, now)
}

func (u LoginFailure) apply(s *Status, _ time.Time) error {
	s.LoginFailure = string(u)
	return nil
}
