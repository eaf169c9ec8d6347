package fleet

import (
	"context"
	"errors"
	"io"
	"net"

	"vmop/vmstatus"
)

var (
	// ErrNotFound means that there is no VM of that name.
	ErrNotFound = errors.New("there is no such VM")
	// ErrOccupied means that another client uses the screen or the console.
	ErrOccupied = errors.New("another client uses it")
)

// A Refusal is why something can't be done now: a text for the user.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// An Action is something that is done to a VM by its name alone.
type Action string

// The actions. Each returns when it is begun or refused; the list shows what becomes of it.
const (
	Start   Action = "start"
	Stop    Action = "stop"    // asks the guest to shut down
	Kill    Action = "kill"    // ends the machine
	Restart Action = "restart" // stops the machine, and starts it with all pending changes
	// ForceRestart ends the machine, and starts it with all pending changes.
	ForceRestart Action = "force-restart"

	Reset  Action = "reset" // the reset button
	Pause  Action = "pause"
	Resume Action = "resume"
	Delete Action = "delete" // its disks stay
	// Migrate moves the running guest to another node.
	Migrate Action = "migrate"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{Start, Stop, Kill, Restart, ForceRestart, Reset, Pause, Resume, Migrate, Delete}
}

// A Size is what a guest is to have; nil leaves a value as it is.
type Size struct {
	CPUs *int64
	RAM  *int64 // bytes
}

// A Use is what guests have.
type Use struct {
	CPUs, RAM int64 // RAM in bytes
}

// UseOf returns what the guests of VMs have.
func UseOf(vms []*VM) (u Use) {
	for _, vm := range vms {
		u.CPUs += vm.CPUs.Now
		u.RAM += vm.RAM.Now
	}
	return u
}

// A Mode is how a screen or a console is opened.
type Mode string

// The modes. One client types; the others watch.
const (
	Type  Mode = "type"
	Watch Mode = "watch"
	Take  Mode = "take" // types in place of the present one
)

// An Argument of QEMU or a helper, or another line of a plan.
type Argument struct {
	// Depth is 0 for a heading such as the program, 1 for what belongs to it.
	Depth int    `json:"depth"`
	Text  string `json:"text"`
	// Origins are the line of the VM type that made it, and the calls that led there.
	Origins []string `json:"origins,omitempty"`
}

// A Sample is what a VM has used from its start to a time.
type Sample = vmstatus.Usage

// A Fleet is a set of VMs. All methods may be called concurrently. Errors of type Refusal
// and ErrNotFound are for the user; others are failures.
type Fleet interface {
	// List returns the VMs, sorted by their names. The slice must not be changed.
	List() []*VM
	// Outline returns the VMs as List does, but doesn't wait for what takes long: then they are Brief.
	Outline() []*VM
	// Whole returns VMs of an Outline with all that is known of them. One that has gone is left out. The
	// slice must not be changed.
	Whole(vms []*VM) []*VM
	// Get returns a VM, or ErrNotFound.
	Get(name string) (*VM, error)
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
	// Used returns what all guests have.
	Used() Use

	// Do carries out an action. user is who wants it, for records.
	Do(ctx context.Context, user, name string, a Action) error
	// Resize changes what the guest has: in the definition, and so in the running VM.
	Resize(ctx context.Context, user, name string, s Size) error
	// Insert changes the medium in a drive; "" ejects.
	Insert(ctx context.Context, user, name, drive, medium string) error

	// Plan returns why QEMU is run as it is: of a running VM the plan of its start, of
	// another the one that it would start with.
	Plan(ctx context.Context, name string) ([]Argument, error)
	// Source returns the text of a module of the VM's type, by the name that origins have: of a
	// running VM as it was at its start.
	Source(ctx context.Context, name, module string) (string, error)
	// Usage returns what a VM has used during the last hour, the oldest first; nothing if it isn't
	// running.
	Usage(ctx context.Context, name string) ([]Sample, error)
	// Events returns a channel with what has happened to a VM (Timeline), at once and whenever there is
	// more, until ctx is done. What it is read for should be short: each call costs the cluster something.
	Events(ctx context.Context, name string) (<-chan []Event, error)
	Definitions
	// Storage returns the disks that outlive VMs; nil if there are none here.
	Storage() Storage
	// Pools returns the pools of VMs; nil if there can be none here.
	Pools() Pools

	// Screenshot writes the screen as PNG.
	Screenshot(ctx context.Context, w io.Writer, name string) error
	// Screen opens the screen, which speaks RFB (RFC 6143) and wants no password.
	Screen(ctx context.Context, user, name string, mode Mode) (net.Conn, error)
	// SPICE opens a channel of the screen for a native viewer, all of whose channels have the same
	// id; mode is Type or Take. It wants no password.
	SPICE(ctx context.Context, user, name, id string, mode Mode) (net.Conn, error)
	// Console opens the serial console; it begins with what the guest last wrote.
	Console(ctx context.Context, user, name string, mode Mode) (net.Conn, error)
	// Forward opens a TCP port of the guest, whatever network it has. Its CloseWrite ends what is sent.
	Forward(ctx context.Context, user, name string, port int) (net.Conn, error)
}
