package status

import (
	"reflect"
	"slices"
	"time"

	"vmop/vmstatus"
)

// An Update is a change of what is known. The implementations are types of this package, most of them in this
// file.
type Update interface {
	// applyTo changes s. It replaces slices and the targets of pointers, and leaves the conditions to Fold.
	applyTo(s *Status, now time.Time) error
}

// Fold returns the status after some updates, applied in order. The error is a *TransitionError or nil. An update
// to a state that cannot be entered, such as Booted while the VM is being stopped, has no effect; the other
// updates do.
func Fold(s Status, now time.Time, updates ...Update) (Status, error) {
	now = now.UTC().Truncate(time.Millisecond)
	var refused error
	for _, u := range updates {
		if err := u.applyTo(&s, now); err != nil && refused == nil {
			refused = err
		}
	}
	if s.State == "" {
		s.State, s.Reason, s.Since = vmstatus.StateInitializing, vmstatus.StateInitializing.DefaultReason(), now
	}
	if s.State == vmstatus.StateStopped {
		forgetStopped(&s)
	}
	s.Addresses = addressesOf(s.cards, guestOf(&s).Interfaces)
	s.Conditions = mergeConditions(s.Conditions, deriveConditions(s), now)
	return s, refused
}

// forgetStopped removes what a stopped VM cannot have.
func forgetStopped(s *Status) {
	s.CPUs, s.RAM = 0, 0
	s.Guest, s.cards, s.LoggedInUser, s.LoginFailure, s.VmopAgent = nil, nil, "", "", false
	s.Consoles, s.RestartAwaitingChanges, s.RestartAwaitingArguments = nil, nil, nil
	s.QEMU.PID, s.QEMU.RunState, s.QEMU.Unresponsive, s.TPM = 0, "", false, ""
	s.Confinement, s.Frozen = nil, nil
	s.Problems = filterProblems(s.Problems, func(p Problem) bool { return !isFault(p) })
}

// Described reports what doesn't change during the life of the runner.
type Described struct {
	Name, UUID, VMType string
	VMTypes            string // generation of the type
	Runner             Runner
	Emulated           string   // why there is no KVM, although it was permitted
	Unprotected        string   // which reachable displays have no password
	Warnings           []string // about options that should be changed
}

// Controlled reports where the manager reaches the runner.
type Controlled Control

// Confined reports how the kernel confines the processes; nil means that this was not recorded.
type Confined struct{ *Confinement }

// Entered reports that the VM has entered a state. An empty reason means the state's default reason. Entering the
// current state again changes only the reason and the message.
type Entered struct {
	State   vmstatus.State
	Reason  vmstatus.Reason
	Message string
}

// Process reports the process of QEMU; PID 0 reports that it has ended.
type Process struct {
	PID     int
	Version string
}

// Began reports when the guest began to run, if an earlier runner started it.
type Began time.Time

// RunState is QEMU's name for the state of its machine: "running", "paused", "io-error" (QAPI type RunState).
type RunState string

// Unresponsive reports whether an answer of QEMU is overdue.
type Unresponsive bool

// CPUs is the number of CPUs visible to the guest.
type CPUs int

// RAM is the memory that the balloon leaves to the guest, in bytes.
type RAM int64

// GuestOS is the operating system that the guest agent reports; nil when the agent is gone.
type GuestOS struct{ Info *OSInfo }

// Interfaces are the guest's network interfaces.
type Interfaces []Interface

// VmopAgent reports whether the log-in agent is connected. Without it, no user is known to be logged in.
type VmopAgent bool

// WantedUser is the user to log in; empty means no user.
type WantedUser string

// LoggedIn is the logged-in user that the log-in agent reports; empty means no user.
type LoggedIn string

// ConsoleOpened reports a new viewer; it has the same fields as Console.
type ConsoleOpened struct{ Kind, Client, User, Mode string }

// ConsoleClosed reports that a viewer has left: the oldest with these values.
type ConsoleClosed ConsoleOpened

// PasswordSerial counts the changes of the display's password.
type PasswordSerial int

// Read reports that a configuration was read. If it is invalid, Error is set, and the resource stays unchanged.
type Read struct {
	Generation int64
	Resource   string
	Error      string
}

// Applied reports that a configuration is active.
type Applied int64

// Pending is what the newest configuration can change only by a restart: its changes, and the differences in
// QEMU's arguments.
type Pending struct {
	Changes   []Change
	Arguments []string
}

// Problems are all requests that are not fulfilled now. Errors of the machine are separate, see Faults.
type Problems []Problem

// Faults are all current errors of the machine of one kind; empty when it has recovered.
type Faults struct {
	Reason   vmstatus.Reason
	Messages []string
}

// Ended reports how the VM ended; its state becomes Stopped.
type Ended Outcome

func (u Described) applyTo(s *Status, now time.Time) error {
	u.Runner.Started = u.Runner.Started.UTC().Truncate(time.Millisecond)
	s.Name, s.UUID, s.VMType, s.VMTypes = u.Name, u.UUID, u.VMType, u.VMTypes
	s.Runner, s.QEMU.Emulated = u.Runner, u.Emulated
	s.QEMU.Unprotected, s.Configuration.Warnings = u.Unprotected, u.Warnings
	return nil
}

func (u Controlled) applyTo(s *Status, _ time.Time) error {
	control := Control(u)
	s.Control = &control
	return nil
}

func (u Confined) applyTo(s *Status, _ time.Time) error {
	s.Confinement = u.Confinement
	return nil
}

func (u Entered) applyTo(s *Status, now time.Time) error {
	if !s.State.CanEnter(u.State) {
		return &TransitionError{s.State, u.State}
	}
	if s.State != u.State {
		s.State, s.Since = u.State, now
	}
	s.Reason, s.Message = u.Reason, u.Message
	if s.Reason == "" {
		s.Reason = u.State.DefaultReason()
	}
	if u.State.Active() && s.Started == nil {
		s.Started = &now
	}
	return nil
}

func (u Process) applyTo(s *Status, _ time.Time) error {
	s.QEMU.PID = u.PID
	if u.Version != "" {
		s.QEMU.Version = u.Version
	}
	if u.PID == 0 {
		s.QEMU.RunState = ""
	}
	return nil
}

func (u Began) applyTo(s *Status, _ time.Time) error {
	began := time.Time(u).UTC().Truncate(time.Millisecond)
	s.Started = &began
	return nil
}

func (u RunState) applyTo(s *Status, _ time.Time) error {
	s.QEMU.RunState = string(u)
	return nil
}

func (u Unresponsive) applyTo(s *Status, _ time.Time) error {
	s.QEMU.Unresponsive = bool(u)
	return nil
}

func (u CPUs) applyTo(s *Status, _ time.Time) error {
	s.CPUs = int(u)
	return nil
}

func (u RAM) applyTo(s *Status, _ time.Time) error {
	s.RAM = int64(u)
	return nil
}

func (u GuestOS) applyTo(s *Status, _ time.Time) error {
	g := guestOf(s)
	g.OS = u.Info
	setGuest(s, g)
	return nil
}

func (u Interfaces) applyTo(s *Status, _ time.Time) error {
	g := guestOf(s)
	g.Interfaces = u
	setGuest(s, g)
	return nil
}

func guestOf(s *Status) Guest {
	if s.Guest == nil {
		return Guest{}
	}
	return *s.Guest
}

func setGuest(s *Status, g Guest) {
	s.Guest = &g
	if g.OS == nil && len(g.Interfaces) == 0 {
		s.Guest = nil
	}
}

func (u VmopAgent) applyTo(s *Status, _ time.Time) error {
	s.VmopAgent = bool(u)
	if !s.VmopAgent {
		s.LoggedInUser, s.LoginFailure = "", ""
	}
	return nil
}

func (u WantedUser) applyTo(s *Status, _ time.Time) error {
	s.WantedUser = string(u)
	return nil
}

func (u LoggedIn) applyTo(s *Status, _ time.Time) error {
	s.LoggedInUser = string(u)
	return nil
}

func (u ConsoleOpened) applyTo(s *Status, now time.Time) error {
	s.Consoles = append(slices.Clip(s.Consoles), Console{
		Kind: u.Kind, Client: u.Client, User: u.User, Mode: u.Mode, Since: now,
	})
	return nil
}

func (u ConsoleClosed) applyTo(s *Status, _ time.Time) error {
	i := slices.IndexFunc(s.Consoles, func(c Console) bool {
		return u == ConsoleClosed{c.Kind, c.Client, c.User, c.Mode}
	})
	if i >= 0 {
		s.Consoles = slices.Concat(s.Consoles[:i], s.Consoles[i+1:])
	}
	return nil
}

func (u PasswordSerial) applyTo(s *Status, _ time.Time) error {
	s.DisplayPasswordSerial = int(u)
	return nil
}

func (u Read) applyTo(s *Status, _ time.Time) error {
	s.Configuration.Generation, s.Configuration.Error = u.Generation, u.Error
	if u.Error == "" {
		s.Configuration.Resource = u.Resource
	}
	return nil
}

func (u Applied) applyTo(s *Status, _ time.Time) error {
	s.Configuration.Applied = int64(u)
	return nil
}

func (u Pending) applyTo(s *Status, _ time.Time) error {
	s.RestartAwaitingChanges, s.RestartAwaitingArguments = u.Changes, u.Arguments
	if s.Configuration.Error == "" { // otherwise the changes belong to an earlier configuration
		s.Configuration.Compared = s.Configuration.Generation
	}
	return nil
}

func (u Problems) applyTo(s *Status, _ time.Time) error {
	s.Problems = slices.Concat(u, filterProblems(s.Problems, isFault))
	return nil
}

func (u Faults) applyTo(s *Status, _ time.Time) error {
	s.Problems = filterProblems(s.Problems, func(p Problem) bool { return p.Reason != u.Reason })
	for _, message := range u.Messages {
		s.Problems = append(s.Problems, Problem{Reason: u.Reason, Message: message})
	}
	return nil
}

func (u TPM) applyTo(s *Status, _ time.Time) error {
	s.TPM = u
	return nil
}

// isFault distinguishes an error of the machine from an unfulfilled request.
func isFault(p Problem) bool { return p.Reason != "" }

// filterProblems returns the problems to keep, in a new slice.
func filterProblems(problems []Problem, keep func(Problem) bool) []Problem {
	var kept []Problem
	for _, p := range problems {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (u Ended) applyTo(s *Status, now time.Time) error {
	outcome := Outcome(u)
	s.Outcome = &outcome
	reason := vmstatus.ReasonVMStopped
	if s.Started == nil {
		reason = vmstatus.ReasonStartFailed
	}
	return Entered{State: vmstatus.StateStopped, Reason: reason, Message: u.Message}.applyTo(s, now)
}

// isUnchanged reports whether at most the memory has changed.
func isUnchanged(a, b *Status) bool {
	x, y := *a, *b
	x.RAM, y.RAM = 0, 0
	return reflect.DeepEqual(&x, &y)
}
