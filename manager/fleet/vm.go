package fleet

import (
	"net"
	"strconv"
	"time"
)

// A VM is what is known of one VM. It is not changed after it was put into a Table.
type VM struct {
	// Name is unique in a fleet.
	Name string
	// Type is the name of the VM type.
	Type string
	// State in one word, and why the VM is in it: a word for programs, and a text for
	// people in English, which may be the guest's, QEMU's or Kubernetes'.
	State   State
	Reason  string
	Message string
	// Since is when the state was entered; zero if that is not known.
	Since time.Time
	// Wanted reports whether the VM is to run.
	Wanted bool
	// Started is when the guest began to run; zero if it isn't running.
	Started time.Time

	// CPUs of the guest, RAM in bytes.
	CPUs, RAM Amount
	// Node is where it runs; empty on this computer.
	Node string
	// Addresses are where the guest answers, the best first.
	Addresses []Address
	// SSH is the command by which a user logs in to the guest; empty when it isn't running.
	SSH string
	// OS is the name of the guest's operating system, OSID its short form (os-release's
	// ID: debian, fedora, windows …).
	OS, OSID string
	// User is logged in to the guest's desktop.
	User string
	// Viewers of screen and console.
	Viewers []Viewer
	// Drives for removable media.
	Drives []Drive
	// Screen and Console report whether the running VM has them, SPICE whether native viewers can
	// show the screen.
	Screen, SPICE, Console bool

	// Pending are the changes that await a restart.
	Pending []Change
	// Problems are what keeps the VM from being as it should be.
	Problems []Problem
	// Conditions in the form of Kubernetes.
	Conditions []Condition
	// Details are further facts, in the order in which they are shown.
	Details []Detail

	// Labels by which lists are filtered.
	Labels map[string]string
	// File is the file that defines the VM; empty in a cluster.
	File string
	// Can has what the fleet can do with the VM now; who may is not its matter.
	Can map[Action]bool
}

// An Address is where a guest answers.
type Address struct {
	// Address is an IP address, Ports those that lead to the guest; none: all do.
	Address string
	Ports   []Port
	// From says from where: Network, Host, Pod or Unknown.
	From string
	// Claimed reports whether only the guest says so.
	Claimed bool
}

// A Port at an address that leads to one of the guest.
type Port struct {
	TCP         bool
	Port, Guest int
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
	Now int64
	// Wanted is what is configured for now, Maximum what the machine can have.
	Wanted, Maximum int64
}

// A Viewer looks at a VM.
type Viewer struct {
	Kind  string // spice, vnc or serial
	Who   string // a user, an address, or a process
	Since time.Time
	// Watches reports that another viewer of this kind types.
	Watches bool
}

// A Drive is a drive for removable media.
type Drive struct {
	// Name by which Insert knows it.
	Name string
	// Medium is the image in it; empty is an empty drive. It has no password of a URL.
	Medium string
}

// A Change awaits a restart.
type Change struct {
	// Path of the value, such as vm.maximumCpus.
	Path string
	// Now is what the machine has, Then what it will have; empty is none.
	Now, Then string
}

// A Problem keeps a VM from being as it should be.
type Problem struct {
	// Path of the value that can't be obeyed, or empty.
	Path    string
	Message string
}

// A Condition is a fact that is True, False or Unknown.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
}

// A Detail is a fact without meaning for programs.
type Detail struct {
	// Key of the catalogues of texts.
	Key   string
	Value string
}
