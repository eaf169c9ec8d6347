package machine

import (
	"encoding/json"
	"io"
	"log/slog"
	"syscall"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
)

// A Step contains what the driver must do now.
type Step struct {
	// Actions must be carried out in this order.
	Actions []Action
	// Wake is when Next must be called again if no input arrives before. Zero means that only an input requires
	// another call.
	Wake time.Time
}

// An Action is a task of the driver for a State. Its kinds are the types in this file.
type Action interface{ isAction() }

type (
	// Send sends a command to QEMU. Its reply goes to State.Reply.
	Send struct {
		ID      uint64
		Command qmp.Command
	}
	// Withdraw cancels a command if it has not been written yet. Its reply is no longer needed.
	Withdraw struct{ ID uint64 }
	// Dial connects to QEMU's monitor. The result goes to State.Connected or State.DialFailed.
	Dial struct{}
	// Publish updates the status.
	Publish struct{ Updates []status.Update }
	// Log writes a line to the log.
	Log struct {
		Level   slog.Level
		Message string
		Attrs   []any
	}
	// Signal sends a signal to QEMU.
	Signal struct{ Signal syscall.Signal }
	// Save saves the progress for a runner that adopts the VM. It precedes the command that it is about.
	Save struct{ Progress Progress }
	// Answer is the answer to a request.
	Answer struct {
		To    Request
		Reply json.RawMessage
		Err   error
	}
	// Settled reports that the paused machine has the wanted configuration, or why that is impossible.
	Settled struct{ Err error }
	// Measure queries the free space of the files' file systems, for State.Measured.
	Measure struct{ Files []string }
	// TryServer checks whether the web server of an address answers, for State.ServerTried.
	TryServer struct{ Address string }
	// OpenDisk opens the file or device of a drive, for State.DiskOpened.
	OpenDisk struct{ reconcile.Drive }
	// OpenCard opens the tap of a network card, if it has one, and records the card's port, for State.CardOpened.
	OpenCard struct {
		reconcile.CardWish
		// Connection counts the connections to QEMU. The answer for an earlier connection is no longer needed.
		Connection int
	}
	// ReleaseCard closes the tap of the network card with a hardware address, and forgets its port.
	ReleaseCard struct{ MAC string }
	// KeepCards does the same for all network cards except those with these hardware addresses.
	KeepCards struct{ MACs []string }
	// Place pins a thread of QEMU to some CPUs of the host, for State.Placed.
	Place struct{ reconcile.Placement }
	// SetPort reports that the guest has opened or closed an agent's port. With a greeted agent, an earlier
	// conversation may have taken place.
	SetPort struct {
		Role          string
		Open, Greeted bool
	}
	// LogIn names the user who should be logged in; "" means no user.
	LogIn struct{ User string }
	// LeaveAgents ends all activity with the agents because the guest is being stopped. Their last published data
	// stays.
	LeaveAgents struct{}
	// FindAgent connects to the guest agent, for State.AgentFound.
	FindAgent struct{ Timeout time.Duration }
	// ShutDownGuest asks the guest agent that was found to shut the guest down, for State.AgentAnswered.
	ShutDownGuest struct{ Timeout time.Duration }
	// FreezeGuest saves the progress and then asks the guest agent to freeze the guest's file systems, for
	// State.GuestFrozen. If the progress can't be saved, it does not ask.
	FreezeGuest struct {
		Progress Progress
		Timeout  time.Duration
	}
	// EndFreeze ends a FreezeGuest that has not been answered.
	EndFreeze struct{}
	// ThawGuest asks the guest agent to thaw the file systems, for State.GuestThawed.
	ThawGuest struct{ Timeout time.Duration }
	// StartHelper restarts a helper of the plan and connects to its socket, if any, for State.HelperStarted.
	StartHelper struct{ Name, Socket string }
	// Close closes a file after QEMU has received its own copy.
	Close struct{ Closer io.Closer }
	// End is the last action.
	End struct{ Outcome Outcome }
)

// A Request is a number that identifies who asked for something.
type Request uint64

func (Send) isAction()          {}
func (OpenCard) isAction()      {}
func (ReleaseCard) isAction()   {}
func (KeepCards) isAction()     {}
func (Withdraw) isAction()      {}
func (Dial) isAction()          {}
func (Publish) isAction()       {}
func (Log) isAction()           {}
func (Signal) isAction()        {}
func (Save) isAction()          {}
func (Answer) isAction()        {}
func (Settled) isAction()       {}
func (Measure) isAction()       {}
func (TryServer) isAction()     {}
func (OpenDisk) isAction()      {}
func (Place) isAction()         {}
func (SetPort) isAction()       {}
func (LogIn) isAction()         {}
func (LeaveAgents) isAction()   {}
func (FindAgent) isAction()     {}
func (ShutDownGuest) isAction() {}
func (FreezeGuest) isAction()   {}
func (EndFreeze) isAction()     {}
func (ThawGuest) isAction()     {}
func (StartHelper) isAction()   {}
func (Close) isAction()         {}
func (End) isAction()           {}
