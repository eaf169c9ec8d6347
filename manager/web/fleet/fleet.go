package fleet

import (
	"context"
	"errors"
	"io"
	"net"

	"vmop/runner/hardware"
	"vmop/vmstatus"
)

var (
	// ErrNotFound means that the VM doesn't exist.
	ErrNotFound = errors.New("there is no such VM")
	// ErrOccupied means that another client uses the screen or console.
	ErrOccupied = errors.New("another client uses it")
)

// A Refusal is a message to the user about why something is not possible now.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// An Action is something to do with a VM that needs no further arguments.
type Action string

// The actions. Each returns when it has begun or is refused; the list of VMs shows the result.
const (
	Start   Action = "start"
	Stop    Action = "stop"    // asks the guest to shut down
	Kill    Action = "kill"    // ends the machine
	Restart Action = "restart" // stops and starts the machine, with all pending changes
	// ForceRestart ends and starts the machine, with all pending changes.
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

// A Size is the wanted size of a guest; nil leaves a value unchanged.
type Size struct {
	CPUs *int64
	RAM  *int64 // bytes
}

// A Use is the total size of guests.
type Use struct {
	CPUs, RAM int64 // RAM in bytes
}

// UseOf returns the total size of the guests of VMs.
func UseOf(vms []*VM) (u Use) {
	for _, vm := range vms {
		u.CPUs += vm.CPUs.Now
		u.RAM += vm.RAM.Now
	}
	return u
}

// A Mode is how a screen or console is opened.
type Mode string

// The modes. One client types; the others watch.
const (
	Type  Mode = "type"
	Watch Mode = "watch"
	Take  Mode = "take" // types, and replaces the current client
)

// An Argument is an argument of QEMU or a helper, or another line of a plan.
type Argument struct {
	// Depth is 0 for a heading such as the program, 1 for its arguments.
	Depth int    `json:"depth"`
	Text  string `json:"text"`
	// Origins are the line of the VM type that added the argument, and the calls that led there.
	Origins []string `json:"origins,omitempty"`
}

// A Sample is the cumulative resource usage of a VM since its start.
type Sample = vmstatus.Usage

// Logs is a Fleet that has the logs of its VMs.
type Logs interface {
	// Log returns the end of the log of a VM since its last start. A Refusal explains why there is none.
	Log(ctx context.Context, name string) (string, error)
}

// A Fleet is a set of VMs. All methods are safe for concurrent use. Errors of type Refusal and ErrNotFound are for the
// user; other errors are failures.
type Fleet interface {
	// List returns the VMs, sorted by name. Don't modify the slice.
	List() []*VM
	// Outline returns the VMs like List, but doesn't wait for slow parts. VMs are Brief if these are missing.
	Outline() []*VM
	// Whole completes the VMs of an Outline, and omits VMs that no longer exist. Don't modify the slice.
	Whole(vms []*VM) []*VM
	// Get returns a VM, or ErrNotFound.
	Get(name string) (*VM, error)
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
	// Used returns the total size of all guests.
	Used() Use

	// Do starts an action. user is the requesting user, for records.
	Do(ctx context.Context, user, name string, a Action) error
	// Resize changes the size of the guest in the definition; a running VM takes the change over. A size beyond the
	// machine's maximum also raises the maximum, which needs a restart.
	Resize(ctx context.Context, user, name string, s Size) error
	// Insert changes the medium in a drive; "" ejects.
	Insert(ctx context.Context, user, name, drive, medium string) error

	// Plan returns the arguments of QEMU with their origins. For a running VM it is the plan of its start, otherwise
	// the plan of the next start.
	Plan(ctx context.Context, name string) ([]Argument, error)
	// Source returns the source of a module of the VM's type, by the name in origins. For a running VM it is the source
	// at its start.
	Source(ctx context.Context, name, module string) (string, error)
	// Devices returns the devices of a running VM with their names in the guest, the lines of the plan that created
	// them, and their fields in the definition. A Refusal explains what to do if they are unknown.
	Devices(ctx context.Context, name string) (hardware.Report, error)
	// Usage returns the usage of a VM during the last hour, oldest first; nil if it isn't running.
	Usage(ctx context.Context, name string) ([]Sample, error)
	// Events returns a channel with the history of a VM (see Timeline). It receives the history immediately and after
	// each change, until ctx is done. Keep calls short: each uses resources of the cluster.
	Events(ctx context.Context, name string) (<-chan []Event, error)
	Definitions
	// Storage returns the disks and images that outlive VMs; nil if this fleet has none.
	Storage() Storage
	// Attachments, Snapshots, Restores, Copies, Autostarts and DataDeletion change VMs; nil if this fleet can't.
	Attachments() Attachments
	Snapshots() Snapshots
	Restores() Restores
	Copies() Copies
	Autostarts() Autostarts
	DataDeletion() DataDeletion
	// Pools returns the pools of VMs; nil if this fleet has none.
	Pools() Pools

	// Screenshot writes the screen as PNG.
	Screenshot(ctx context.Context, w io.Writer, name string) error
	// Screen opens the screen as an RFB connection (RFC 6143) without a password.
	Screen(ctx context.Context, user, name string, mode Mode) (net.Conn, error)
	// SPICE opens a channel of the screen for a native viewer, without a password. All channels of a viewer have the
	// same id. mode is Type or Take.
	SPICE(ctx context.Context, user, name, id string, mode Mode) (net.Conn, error)
	// Console opens the serial console. It begins with the guest's latest output.
	Console(ctx context.Context, user, name string, mode Mode) (net.Conn, error)
	// Forward opens a TCP port of the guest, with any type of network. CloseWrite of the connection ends the sent data.
	Forward(ctx context.Context, user, name string, port int) (net.Conn, error)
}
