package fleet

import (
	"net"
	"strconv"
	"time"

	"vmop/vmstatus"
)

// A VM is what is known of one VM. It is not changed after it was put into a Table. Its JSON, and that of what it
// has, is the JSON interface's (docs/reference/api.md).
type VM struct {
	// Name is unique in a fleet.
	Name string `json:"name"`
	// UID differs from that of an earlier VM of the same name; empty on this computer.
	UID string `json:"uid,omitempty"`
	// Brief: of the rest only State, CPUs.Now and RAM.Now are known yet (Fleet.Outline).
	Brief bool `json:"-"`
	// Type is the name of the VM type.
	Type string `json:"type,omitempty"`
	// State in one word, and why the VM is in it: a word for programs, and a text for
	// people in English, which may be the guest's, QEMU's or Kubernetes'.
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the state was entered; zero if that is not known.
	Since time.Time `json:"since,omitzero"`
	// Wanted reports whether the VM is to run. RunPolicy is the name of what decides that; empty if
	// it has none.
	Wanted    bool   `json:"wanted,omitempty"`
	RunPolicy string `json:"runPolicy,omitempty"`
	// Started is when the guest began to run; zero if it isn't running.
	Started time.Time `json:"started,omitzero"`

	// CPUs of the guest, RAM in bytes.
	CPUs Amount `json:"cpus,omitzero"`
	RAM  Amount `json:"ram,omitzero"`
	// Node is where it runs; empty on this computer.
	Node string `json:"node,omitempty"`
	// Addresses are where the guest answers, the best first.
	Addresses []Address `json:"addresses,omitempty"`
	// SSH is the command by which a user logs in to the guest; empty when it isn't running.
	SSH string `json:"ssh,omitempty"`
	// OS is the name of the guest's operating system, OSID its short form (os-release's
	// ID: debian, fedora, windows …).
	OS   string `json:"os,omitempty"`
	OSID string `json:"osId,omitempty"`
	// User is logged in to the guest's desktop.
	User string `json:"user,omitempty"`
	// Assigned is who has the VM from a pool; nil: no one has.
	Assigned *Assigned `json:"assigned,omitempty"`
	// Viewers of screen and console.
	Viewers []Viewer `json:"viewers,omitempty"`
	// Volumes are the disks and CD drives, in the order of the definition, and then the disks that are attached while
	// the guest runs.
	Volumes []Volume `json:"disks,omitempty"`
	// Snapshots of the VM, the latest first.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// Drives for removable media.
	Drives []Drive `json:"drives,omitempty"`
	// Screen and Console report whether the running VM has them, SPICE whether native viewers can
	// show the screen.
	Screen  bool `json:"-"`
	SPICE   bool `json:"-"`
	Console bool `json:"-"`

	// RestartAwaitingChanges are those that await a restart.
	RestartAwaitingChanges []Change `json:"restartAwaitingChanges,omitempty"`
	// Operations are what users have asked for last, the latest first; none on this computer.
	Operations []Operation `json:"operations,omitempty"`
	// Migration is that of a guest that is being moved to another node; nil: it isn't.
	Migration *Migration `json:"migration,omitempty"`
	// Problems are what keeps the VM from being as it should be.
	Problems []Problem `json:"problems,omitempty"`
	// Conditions in the form of Kubernetes.
	Conditions []Condition `json:"conditions,omitempty"`
	// Details are further facts, in the order in which they are shown.
	Details []Detail `json:"details,omitempty"`

	// Labels by which lists are filtered.
	Labels map[string]string `json:"labels,omitempty"`
	// File is the file that defines the VM; empty in a cluster.
	File string `json:"file,omitempty"`
	// Can has what the fleet can do with the VM now; who may is not its matter. Refused has the reasons why it can't do
	// the rest, where they are more than the state.
	Can     map[Action]bool   `json:"-"`
	Refused map[Action]string `json:"-"`
}

// An Address is where a guest answers.
type Address struct {
	// Address is an IP address, Ports those that lead to the guest; none: all do.
	Address string `json:"address"`
	Ports   []Port `json:"ports,omitempty"`
	// From says from where: Network, Host, Pod or Unknown.
	From string `json:"from"`
	// Claimed reports whether only the guest says so.
	Claimed bool `json:"claimed,omitempty"`
}

// A Port at an address that leads to one of the guest.
type Port struct {
	TCP   bool `json:"tcp"`
	Port  int  `json:"port"`
	Guest int  `json:"guest"`
}

// String is the address, with the first of its ports unless all lead to the guest.
func (a Address) String() string {
	if a.Ports == nil {
		return a.Address
	}
	return net.JoinHostPort(a.Address, strconv.Itoa(a.Ports[0].Port))
}

// State of a VM in one word: the manager's phases (package api/v1), and two more.
type State string

// The states.
const (
	Stopped     State = "Stopped"
	Pending     State = "Pending"
	Starting    State = "Starting"
	Running     State = "Running"
	Paused      State = "Paused" // running, but QEMU does not execute the guest
	Stopping    State = "Stopping"
	Failed      State = "Failed"
	Terminating State = "Terminating"
	// Unmanaged: QEMU is running without a runner.
	Unmanaged State = "Unmanaged"
)

// States returns all states.
func States() []State {
	return []State{Running, Paused, Starting, Stopping, Pending, Failed, Unmanaged, Terminating, Stopped}
}

// Up reports whether there is a machine in this state.
func (s State) Up() bool { return s == Running || s == Paused || s == Stopping || s == Unmanaged }

// Changing reports whether the state is about to become another by itself.
func (s State) Changing() bool {
	return s == Starting || s == Stopping || s == Pending || s == Terminating
}

// An Amount of CPUs or of memory.
type Amount struct {
	// Now is what the guest has; 0 if it isn't running.
	Now int64 `json:"now"`
	// Wanted is what is configured for now, Maximum what the machine can have.
	Wanted  int64 `json:"wanted"`
	Maximum int64 `json:"maximum"`
}

// A Viewer looks at a VM.
type Viewer struct {
	Kind  string    `json:"kind"` // spice, vnc or serial
	Who   string    `json:"who"`  // a user, an address, or a process
	Since time.Time `json:"since,omitzero"`
	// Watches reports that another viewer of this kind types.
	Watches bool `json:"watches,omitempty"`
}

// A Drive is a drive for removable media.
type Drive struct {
	// Name by which Insert knows it.
	Name string `json:"name"`
	// Medium is the image in it; empty is an empty drive. It has no password of a URL.
	Medium string `json:"medium"`
}

// A Change is one of a VM's definition.
type Change = vmstatus.Change

// An Operation is something that a user has asked for, and what has become of it.
type Operation struct {
	// Name of the VirtualMachineOperation.
	Name string `json:"name"`
	// Type is Start, Stop, Restart, Reset, Evict or Migrate; Force ends the guest without asking it.
	Type  string `json:"type"`
	Force bool   `json:"force,omitempty"`
	// By is the user, empty if that is not known; Since is when it was asked for.
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since"`
	// Phase is Pending, InProgress, Completed, Failed or Superseded; Reason and Message say why.
	Phase   string `json:"phase"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// A Migration moves a guest from a node to another one.
type Migration struct {
	From string `json:"from"`
	// To is empty until it is chosen.
	To string `json:"to,omitempty"`
	// Progress is how much of the guest's memory is there, in percent.
	Progress int `json:"progress"`
	// Message says what is being done, for people.
	Message string `json:"message,omitempty"`
}

// A Problem keeps a VM from being as it should be.
type Problem struct {
	// Path of the value that can't be obeyed, or empty.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// A Condition is a fact that is True, False or Unknown.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// A Detail is a fact without meaning for programs.
type Detail struct {
	// Key of the catalogues of texts.
	Key   string `json:"key"`
	Value string `json:"value"`
}
