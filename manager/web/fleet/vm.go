package fleet

import (
	"net"
	"strconv"
	"time"

	"vmop/vmstatus"
)

// A VM is the state of a VM. It is not modified after it was put into a Table. Its JSON form is part of the JSON
// interface (docs/reference/api.md).
type VM struct {
	// Name is unique in a fleet.
	Name string `json:"name"`
	// UID distinguishes VMs that had the same name; empty on this computer.
	UID string `json:"uid,omitempty"`
	// Brief reports that, of the following fields, only State, CPUs.Now and RAM.Now are known yet (Fleet.Outline).
	Brief bool `json:"-"`
	// Type is the name of the VM type.
	Type string `json:"type,omitempty"`
	// State is the state in one word. Reason explains it with a word for programs, Message with an English text for
	// people. The text may come from the guest, QEMU or Kubernetes.
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Advice explains in English what to do about the reason; empty if no action is needed.
	Advice string `json:"advice,omitempty"`
	// Since is when the state was entered; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Wanted reports whether the VM should run. RunPolicy is the name of the policy that decides that; empty if there
	// is none.
	Wanted    bool   `json:"wanted,omitempty"`
	RunPolicy string `json:"runPolicy,omitempty"`
	// Started is when the guest started; zero if it isn't running.
	Started time.Time `json:"started,omitzero"`

	// CPUs and RAM (in bytes) of the guest.
	CPUs Amount `json:"cpus,omitzero"`
	RAM  Amount `json:"ram,omitzero"`
	// Node is the node that runs the VM; empty on this computer.
	Node string `json:"node,omitempty"`
	// Addresses are the addresses of the guest, the best first.
	Addresses []Address `json:"addresses,omitempty"`
	// Cards are the network cards in the order of the definition.
	Cards []Card `json:"cards,omitempty"`
	// SSH is the command to log in to the guest; empty if it isn't running.
	SSH string `json:"ssh,omitempty"`
	// OS is the name of the guest's operating system. OSID is its short form (os-release's ID: debian, fedora, windows
	// …).
	OS   string `json:"os,omitempty"`
	OSID string `json:"osId,omitempty"`
	// User is the user who is logged in to the guest's desktop.
	User string `json:"user,omitempty"`
	// Assigned is the assignment from a pool; nil if there is none.
	Assigned *Assigned `json:"assigned,omitempty"`
	// Viewers of the screen and console.
	Viewers []Viewer `json:"viewers,omitempty"`
	// Volumes are the disks and CD drives in the order of the definition, followed by the disks that were attached to
	// the running guest.
	Volumes []Volume `json:"disks,omitempty"`
	// Snapshots of the VM, the latest first.
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	// Drives for removable media.
	Drives []Drive `json:"drives,omitempty"`
	// Screen and Console report whether the running VM has them. SPICE reports whether native viewers can show the
	// screen.
	Screen  bool `json:"-"`
	SPICE   bool `json:"-"`
	Console bool `json:"-"`

	// RestartAwaitingChanges are the changes that need a restart.
	RestartAwaitingChanges []Change `json:"restartAwaitingChanges,omitempty"`
	// Operations are the recent requests of users, the latest first; empty on this computer.
	Operations []Operation `json:"operations,omitempty"`
	// Migration is the active migration of the guest; nil if there is none.
	Migration *Migration `json:"migration,omitempty"`
	// Activity is what the fleet does with the VM in the background, in English; it may be empty.
	Activity string `json:"activity,omitempty"`
	// Autostart is whether the VM starts without a request; nil in a cluster, where RunPolicy decides, and on a
	// computer without systemd.
	Autostart *Autostart `json:"autostart,omitempty"`
	// Problems of the VM.
	Problems []Problem `json:"problems,omitempty"`
	// Conditions in the form of Kubernetes.
	Conditions []Condition `json:"conditions,omitempty"`
	// Details are further facts, in display order.
	Details []Detail `json:"details,omitempty"`

	// Labels for filtering lists.
	Labels map[string]string `json:"labels,omitempty"`
	// File is the file that defines the VM; empty in a cluster.
	File string `json:"file,omitempty"`
	// Can contains the actions that are possible now, regardless of permissions. Refused contains the reasons for the
	// others, if they go beyond the state.
	Can     map[Action]bool   `json:"-"`
	Refused map[Action]string `json:"-"`
}

// An Address is an address of a guest.
type Address struct {
	// Address is an IP address. Ports are the ports that lead to the guest; empty if all do.
	Address string `json:"address"`
	Ports   []Port `json:"ports,omitempty"`
	// From is where the address is reachable from: Network, Host, Pod or Unknown.
	From string `json:"from"`
	// Claimed reports that only the guest has reported the address.
	Claimed bool `json:"claimed,omitempty"`
}

// A Card is a network card of the definition.
type Card struct {
	// Key identifies the card for Cards; empty if it can't be changed.
	Key string `json:"key,omitempty"`
	// Network is the type of its network. Bridge is the bridge of a tap.
	Network string `json:"network"`
	Bridge  string `json:"bridge,omitempty"`
	// Model is its QEMU device, MAC its address; "" means the default.
	Model string `json:"model,omitempty"`
	MAC   string `json:"mac,omitempty"`
	// Down reports that its cable is unplugged.
	Down bool `json:"down,omitempty"`
}

// A Port forwards a port of an address to a port of the guest.
type Port struct {
	TCP   bool `json:"tcp"`
	Port  int  `json:"port"`
	Guest int  `json:"guest"`
}

// String returns the address, with its first port unless all ports lead to the guest.
func (a Address) String() string {
	if a.Ports == nil {
		return a.Address
	}
	return net.JoinHostPort(a.Address, strconv.Itoa(a.Ports[0].Port))
}

// State is the state of a VM in one word: the manager's phases (package api/v1), and two more.
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
	// Unmanaged means that QEMU is running without a runner.
	Unmanaged State = "Unmanaged"
)

// States returns all states.
func States() []State {
	return []State{Running, Paused, Starting, Stopping, Pending, Failed, Unmanaged, Terminating, Stopped}
}

// Up reports whether the machine exists in this state.
func (s State) Up() bool { return s == Running || s == Paused || s == Stopping || s == Unmanaged }

// Changing reports whether the state is temporary.
func (s State) Changing() bool {
	return s == Starting || s == Stopping || s == Pending || s == Terminating
}

// An Amount is an amount of CPUs or memory.
type Amount struct {
	// Now is the amount of the guest; 0 if it isn't running.
	Now int64 `json:"now"`
	// Wanted is the configured amount, Maximum the limit of the machine.
	Wanted  int64 `json:"wanted"`
	Maximum int64 `json:"maximum"`
}

// A Viewer is connected to the screen or console of a VM.
type Viewer struct {
	Kind  string    `json:"kind"` // spice, vnc or serial
	Who   string    `json:"who"`  // a user, an address, or a process
	Since time.Time `json:"since,omitzero"`
	// Watches reports that another viewer of this kind has the keyboard.
	Watches bool `json:"watches,omitempty"`
}

// A Drive is a drive for removable media.
type Drive struct {
	// Name is the drive's name for Insert.
	Name string `json:"name"`
	// Medium is the image in the drive, without the password of a URL; empty for an empty drive.
	Medium string `json:"medium"`
}

// A Change is a change of a VM's definition.
type Change = vmstatus.Change

// An Operation is a request of a user, and its result.
type Operation struct {
	// Name of the VirtualMachineOperation.
	Name string `json:"name"`
	// Type is Start, Stop, Restart, Reset, Evict or Migrate. Force skips the shutdown of the guest.
	Type  string `json:"type"`
	Force bool   `json:"force,omitempty"`
	// By is the user; empty if unknown. Since is the time of the request.
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since"`
	// Phase is Pending, InProgress, Completed, Failed or Superseded. Reason and Message explain it.
	Phase   string `json:"phase"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// A Migration is the move of a guest from one node to another.
type Migration struct {
	From string `json:"from"`
	// To is empty until the node is chosen.
	To string `json:"to,omitempty"`
	// Progress is how much of the guest's memory and copied disks has been transferred, in percent.
	Progress int `json:"progress"`
	// Message is the current step, for people.
	Message string `json:"message,omitempty"`
}

// A Problem is something that prevents a VM from working as defined.
type Problem struct {
	// Path is the field with the invalid value, or empty.
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

// A Detail is a fact for people only.
type Detail struct {
	// Key in the text catalogs.
	Key   string `json:"key"`
	Value string `json:"value"`
}
