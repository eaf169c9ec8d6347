package status

import (
	"reflect"
	"slices"
	"time"

	"vmop/vmstatus"
)

// An Update is a piece of news. The kinds are the types in this file.
type Update interface {
	// apply changes s. It replaces slices and what pointers lead to, and leaves
	// the conditions to Fold.
	apply(s *Status, now time.Time) error
}

// Fold returns the status after some updates, in order. The error is a
// *TransitionError or nil: an update to a state that cannot be entered, such as
// Booted while the VM is being stopped, is without effect, the others are not.
func Fold(s Status, now time.Time, updates ...Update) (Status, error) {
	now = now.UTC().Truncate(time.Millisecond)
	var refused error
	for _, u := range updates {
		if err := u.apply(&s, now); err != nil && refused == nil {
			refused = err
		}
	}
	if s.State == "" {
		s.State, s.Reason, s.Since = vmstatus.StateInitializing, vmstatus.StateInitializing.DefaultReason(), now
	}
	if s.State == vmstatus.StateStopped {
		forget(&s)
	}
	s.Addresses = addressesOf(s.cards, guestOf(&s).Interfaces)
	s.Conditions = merge(s.Conditions, Derive(s), now)
	return s, refused
}

// forget removes what a stopped VM cannot have.
func forget(s *Status) {
	s.CPUs, s.RAM = 0, 0
	s.Guest, s.cards, s.LoggedInUser, s.LoginFailure, s.VmopAgent = nil, nil, "", "", false
	s.Consoles, s.RestartAwaitingChanges, s.RestartAwaitingArguments = nil, nil, nil
	s.QEMU.PID, s.QEMU.RunState, s.QEMU.Unresponsive, s.TPM = 0, "", false, ""
	s.Confinement, s.Frozen = nil, nil
	s.Problems = only(s.Problems, func(p Problem) bool { return !isFault(p) })
}

// Described tells what doesn't change as long as the runner lives.
type Described struct {
	Name, UUID, VMType string
	Runner             Runner
	Emulated           string // why there is no KVM, though it was welcome
	Unprotected        string // which displays have no password, and can be reached
}

// Controlled tells where the manager reaches the runner.
type Controlled Control

// Confined tells what the kernel holds the processes to; nil means that this is not
// recorded.
type Confined struct{ *Confinement }

// Entered tells that the VM is in another state. An empty reason means the
// usual one of the state. Entering the state it is in changes the reason and
// the message only.
type Entered struct {
	State   vmstatus.State
	Reason  vmstatus.Reason
	Message string
}

// Process tells that QEMU runs, as process pid (0: it doesn't any more).
type Process struct {
	PID     int
	Version string
}

// Began tells when the guest began to run, if an earlier runner started it.
type Began time.Time

// RunState is QEMU's word for what its machine does: "running", "paused",
// "io-error" (QAPI type RunState).
type RunState string

// Unresponsive reports whether QEMU owes an answer for too long.
type Unresponsive bool

// CPUs is how many the guest has.
type CPUs int

// RAM is what the balloon leaves to the guest, in bytes.
type RAM int64

// GuestOS is what the guest agent says runs in the guest; nil when the agent is
// gone.
type GuestOS struct{ Info *OSInfo }

// Interfaces are those of the guest.
type Interfaces []Interface

// VmopAgent reports whether the log-in agent is connected. When it is not, no
// user is known to be logged in.
type VmopAgent bool

// WantedUser is the user to log in; empty means none.
type WantedUser string

// LoggedIn is the user that is logged in, as the log-in agent reports; empty means none.
type LoggedIn string

// ConsoleOpened tells of a new viewer; the members are those of a Console.
type ConsoleOpened struct{ Kind, Client, User, Mode string }

// ConsoleClosed tells of one that has gone: the oldest with these values.
type ConsoleClosed ConsoleOpened

// PasswordSerial counts the changes of the display's password.
type PasswordSerial int

// Read tells that a configuration was read. A faulty one has an error, and leaves
// the resource as it was.
type Read struct {
	Generation int64
	Resource   string
	Error      string
}

// Applied tells that a configuration is in force.
type Applied int64

// Pending is what awaits a restart to take the newest configuration over: the changes of it,
// and how QEMU's arguments change with them.
type Pending struct {
	Changes   []Change
	Arguments []string
}

// Problems are all wishes that are not fulfilled now. Faults of the machine are
// not among them.
type Problems []Problem

// Faults are the machine's faults of one kind: all that are known now, none
// when it has recovered.
type Faults struct {
	Reason   vmstatus.Reason
	Messages []string
}

// Ended reports how the VM ended; its state is Stopped then.
type Ended Outcome

func (u Described) apply(s *Status, now time.Time) error {
	u.Runner.Started = u.Runner.Started.UTC().Truncate(time.Millisecond)
	s.Name, s.UUID, s.VMType, s.Runner, s.QEMU.Emulated = u.Name, u.UUID, u.VMType, u.Runner, u.Emulated
	s.QEMU.Unprotected = u.Unprotected
	return nil
}

func (u Controlled) apply(s *Status, _ time.Time) error {
	control := Control(u)
	s.Control = &control
	return nil
}

func (u Confined) apply(s *Status, _ time.Time) error {
	s.Confinement = u.Confinement
	return nil
}

func (u Entered) apply(s *Status, now time.Time) error {
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

func (u Process) apply(s *Status, _ time.Time) error {
	s.QEMU.PID = u.PID
	if u.Version != "" {
		s.QEMU.Version = u.Version
	}
	if u.PID == 0 {
		s.QEMU.RunState = ""
	}
	return nil
}

func (u Began) apply(s *Status, _ time.Time) error {
	began := time.Time(u).UTC().Truncate(time.Millisecond)
	s.Started = &began
	return nil
}

func (u RunState) apply(s *Status, _ time.Time) error {
	s.QEMU.RunState = string(u)
	return nil
}

func (u Unresponsive) apply(s *Status, _ time.Time) error {
	s.QEMU.Unresponsive = bool(u)
	return nil
}

func (u CPUs) apply(s *Status, _ time.Time) error {
	s.CPUs = int(u)
	return nil
}

func (u RAM) apply(s *Status, _ time.Time) error {
	s.RAM = int64(u)
	return nil
}

func (u GuestOS) apply(s *Status, _ time.Time) error {
	g := guestOf(s)
	g.OS = u.Info
	setGuest(s, g)
	return nil
}

func (u Interfaces) apply(s *Status, _ time.Time) error {
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

func (u VmopAgent) apply(s *Status, _ time.Time) error {
	s.VmopAgent = bool(u)
	if !s.VmopAgent {
		s.LoggedInUser, s.LoginFailure = "", ""
	}
	return nil
}

func (u WantedUser) apply(s *Status, _ time.Time) error {
	s.WantedUser = string(u)
	return nil
}

func (u LoggedIn) apply(s *Status, _ time.Time) error {
	s.LoggedInUser = string(u)
	return nil
}

func (u ConsoleOpened) apply(s *Status, now time.Time) error {
	s.Consoles = append(slices.Clip(s.Consoles), Console{
		Kind: u.Kind, Client: u.Client, User: u.User, Mode: u.Mode, Since: now,
	})
	return nil
}

func (u ConsoleClosed) apply(s *Status, _ time.Time) error {
	i := slices.IndexFunc(s.Consoles, func(c Console) bool {
		return u == ConsoleClosed{c.Kind, c.Client, c.User, c.Mode}
	})
	if i >= 0 {
		s.Consoles = slices.Concat(s.Consoles[:i], s.Consoles[i+1:])
	}
	return nil
}

func (u PasswordSerial) apply(s *Status, _ time.Time) error {
	s.DisplayPasswordSerial = int(u)
	return nil
}

func (u Read) apply(s *Status, _ time.Time) error {
	s.Configuration.Generation, s.Configuration.Error = u.Generation, u.Error
	if u.Error == "" {
		s.Configuration.Resource = u.Resource
	}
	return nil
}

func (u Applied) apply(s *Status, _ time.Time) error {
	s.Configuration.Applied = int64(u)
	return nil
}

func (u Pending) apply(s *Status, _ time.Time) error {
	s.RestartAwaitingChanges, s.RestartAwaitingArguments = u.Changes, u.Arguments
	if s.Configuration.Error == "" { // else it is about an earlier one
		s.Configuration.Compared = s.Configuration.Generation
	}
	return nil
}

func (u Problems) apply(s *Status, _ time.Time) error {
	s.Problems = slices.Concat(u, only(s.Problems, isFault))
	return nil
}

func (u Faults) apply(s *Status, _ time.Time) error {
	s.Problems = only(s.Problems, func(p Problem) bool { return p.Reason != u.Reason })
	for _, message := range u.Messages {
		s.Problems = append(s.Problems, Problem{Reason: u.Reason, Message: message})
	}
	return nil
}

func (u TPM) apply(s *Status, _ time.Time) error {
	s.TPM = u
	return nil
}

// isFault tells a fault of the machine from an unfulfilled wish.
func isFault(p Problem) bool { return p.Reason != "" }

// only returns those that are kept, in a slice of their own.
func only(problems []Problem, keep func(Problem) bool) []Problem {
	var kept []Problem
	for _, p := range problems {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (u Ended) apply(s *Status, now time.Time) error {
	outcome := Outcome(u)
	s.Outcome = &outcome
	reason := vmstatus.ReasonVMStopped
	if s.Started == nil {
		reason = vmstatus.ReasonStartFailed
	}
	return Entered{State: vmstatus.StateStopped, Reason: reason, Message: u.Message}.apply(s, now)
}

// same reports whether nothing has changed but, perhaps, the memory.
func same(a, b *Status) bool {
	x, y := *a, *b
	x.RAM, y.RAM = 0, 0
	return reflect.DeepEqual(&x, &y)
}
