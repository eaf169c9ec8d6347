package machine

import (
	"encoding/json"
	"io"
	"log/slog"
	"syscall"
	"time"

	"vmop/qmp"
	"vmop/runner/reconcile"
	"vmop/runner/status"
)

// A Step is what is to be done now.
type Step struct {
	// Actions are carried out in this order.
	Actions []Action
	// Wake is when Next has to be called again if nothing happens before. Zero
	// means that only what happens matters.
	Wake time.Time
}

// An Action is what the driver does for a State. The kinds are the types in this
// file.
type Action interface{ isAction() }

type (
	// Send says a command to QEMU. Its reply is given to State.Reply.
	Send struct {
		ID      uint64
		Command qmp.Command
	}
	// Withdraw takes a command back if it has not been written yet. Its reply is
	// not awaited any more.
	Withdraw struct{ ID uint64 }
	// Dial connects with QEMU's monitor: State.Connected or State.DialFailed tells
	// the result.
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
	// Save keeps the progress for a runner that carries the VM on. It comes before
	// the command that it is about.
	Save struct{ Progress Progress }
	// Answer is the answer to a request.
	Answer struct {
		To    Request
		Reply json.RawMessage
		Err   error
	}
	// Settled says that the paused machine is as wanted, or why it cannot be.
	Settled struct{ Err error }
	// Measure asks how much space the file systems of some files have, for
	// State.Measured.
	Measure struct{ Files []string }
	// TryServer asks whether the web server of an address answers, for
	// State.ServerTried.
	TryServer struct{ Address string }
	// OpenDisk opens the file or device of a drive, for State.DiskOpened.
	OpenDisk struct{ reconcile.Drive }
	// Place has a thread of QEMU run on some CPUs of the host, for State.Placed.
	Place struct{ reconcile.Placement }
	// SetPort says that the guest has opened or closed the port of an agent. A
	// greeted agent may have been spoken with before.
	SetPort struct {
		Role          string
		Open, Greeted bool
	}
	// LogIn says which user is to be logged in; "" is none.
	LogIn struct{ User string }
	// LeaveAgents ends what is going on with the agents: the guest is being
	// stopped, and what they have said last stays.
	LeaveAgents struct{}
	// FindAgent connects with the guest agent, for State.AgentFound.
	FindAgent struct{ Timeout time.Duration }
	// ShutDownGuest asks the guest agent that was found to shut the guest down, for
	// State.AgentAnswered.
	ShutDownGuest struct{ Timeout time.Duration }
	// FreezeGuest saves the progress, without which nothing is done, and then asks the guest
	// agent to freeze the guest's file systems, for State.GuestFrozen.
	FreezeGuest struct {
		Progress Progress
		Timeout  time.Duration
	}
	// EndFreeze ends a FreezeGuest that has not been answered.
	EndFreeze struct{}
	// ThawGuest asks the guest agent to thaw them, for State.GuestThawed.
	ThawGuest struct{ Timeout time.Duration }
	// StartHelper starts a helper of the plan again and connects to its socket, if any, for
	// State.HelperStarted.
	StartHelper struct{ Name, Socket string }
	// Close closes what QEMU has its own of by now.
	Close struct{ Closer io.Closer }
	// End is the last action.
	End struct{ Outcome Outcome }
)

// A Request is the number by which the driver knows who has asked for something.
type Request uint64

func (Send) isAction()          {}
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
