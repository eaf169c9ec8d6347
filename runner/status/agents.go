package status

import (
	"time"

	"vmop/vmstatus"
)

// Answered reports that the guest agent has answered: a VM in state Booting or Running enters Booted. It has no
// effect in other states.
type Answered struct{}

// Unanswered reports that the agent of a booting guest has not answered, and may never answer. Its value is a
// text for people. It has no effect in other states.
type Unanswered string

// WasReset reports that the guest was reset. It discards what the agents have reported, and an active VM enters
// Booting again.
type WasReset struct{}

// LoginFailure is the log-in agent's reason for not logging in the wanted user. It is empty when the log-in
// succeeded or is in progress.
type LoginFailure string

func (Answered) applyTo(s *Status, now time.Time) error {
	if s.State != vmstatus.StateBooting && s.State != vmstatus.StateRunning {
		return nil
	}
	return Entered{State: vmstatus.StateBooted}.applyTo(s, now)
}

func (u Unanswered) applyTo(s *Status, now time.Time) error {
	if s.State != vmstatus.StateBooting {
		return nil
	}
	return Entered{State: vmstatus.StateRunning, Message: string(u)}.applyTo(s, now)
}

func (WasReset) applyTo(s *Status, now time.Time) error {
	s.Guest = nil
	_ = VmopAgent(false).applyTo(s, now) // it returns no error
	if !s.State.Active() {
		return nil
	}
	return Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonVMReset}.applyTo(s, now)
}

func (u LoginFailure) applyTo(s *Status, _ time.Time) error {
	s.LoginFailure = string(u)
	return nil
}
