package status

import (
	"cmp"
	"time"

	"vmop/vmstatus"
)

// Status is what is known about a VM. Slices and pointers in it are never changed, only replaced, so a copy of a
// Status is a snapshot.
type Status struct {
	// Name is the name in the configuration.
	Name string `json:"name"`
	// UUID is the machine's UUID.
	UUID string `json:"uuid,omitempty"`
	// VMType is the name of the VM type.
	VMType string `json:"vmType,omitempty"`
	// VMTypes is the generation of the stock types that the VM's pinned type belongs to. It is empty for types that
	// are older than generations.
	VMTypes string `json:"vmTypes,omitempty"`

	// State is the VM's state. Reason explains it in one word, Message in a text for people.
	State   vmstatus.State  `json:"state"`
	Reason  vmstatus.Reason `json:"reason"`
	Message string          `json:"message,omitempty"`
	// Since is when the VM entered the state.
	Since time.Time `json:"since"`
	// Started is when the guest began to run; nil before.
	Started *time.Time `json:"started,omitempty"`

	// Runner is the process that controls the VM.
	Runner Runner `json:"runner"`
	// Control is where the manager reaches the runner; nil if it can't.
	Control *Control `json:"control,omitempty"`
	// QEMU is the process that the VM runs in.
	QEMU QEMU `json:"qemu"`

	// CPUs is the number of CPUs visible to the guest. It is 0 when the guest isn't running or the number is not
	// known yet.
	CPUs int `json:"cpus"`
	// RAM is the memory that the balloon leaves to the guest, in bytes. It is 0 when the guest isn't running.
	RAM int64 `json:"ram"`

	// Guest is what the agents in the guest report; nil until an agent has reported.
	Guest *Guest `json:"guest,omitempty"`
	// Addresses are where the guest can be reached, the best first; at most MaxAddresses.
	Addresses []Address `json:"addresses,omitempty"`
	cards     Cards     // source of Addresses
	// WantedUser is the user to log in. LoggedInUser is the user who is logged in.
	WantedUser   string `json:"wantedUser,omitempty"`
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// LoginFailure is the agent's reason for not logging in the wanted user.
	LoginFailure string `json:"loginFailure,omitempty"`
	// VmopAgent reports whether the log-in agent in the guest is connected.
	VmopAgent bool `json:"vmopAgent"`

	// Confinement is how the kernel confines QEMU and its helpers. It is nil before QEMU runs, and if an earlier
	// runner started QEMU without recording it.
	Confinement *Confinement `json:"confinement,omitempty"`

	// Frozen reports that the guest's file systems are frozen, or may be. It is nil unless the runner has frozen
	// them.
	Frozen *Frozen `json:"frozen,omitempty"`

	// Migration describes a move of the guest in progress; nil if there isn't one.
	Migration *Migration `json:"migration,omitempty"`

	// Drives are the drives that were attached while the guest is running, and those in transition or failed.
	Drives []Drive `json:"drives,omitempty"`
	// NICs are the network cards that were plugged in while the guest is running, and those in transition or failed.
	NICs []NIC `json:"nics,omitempty"`
	// DrivesRevision is the revision of the configuration (drivesRevision) that Drives is complete for; 0 means
	// not known yet.
	DrivesRevision int64 `json:"drivesRevision,omitempty"`

	// TPM reports whether the machine's TPM, a separate process, is running; empty if the machine has no TPM.
	TPM TPM `json:"tpm,omitempty"`

	// Consoles are the current viewers of the VM, in the order of their arrival.
	Consoles []Console `json:"consoles,omitempty"`
	// DisplayPasswordSerial counts the changes of the display's password; -1 means that the display has no
	// password.
	DisplayPasswordSerial int `json:"displayPasswordSerial"`

	// Configuration shows which configuration was read and which one is active.
	Configuration Configuration `json:"configuration"`
	// RestartAwaitingChanges are the changes that need a restart of the VM.
	RestartAwaitingChanges []Change `json:"restartAwaitingChanges,omitempty"`
	// RestartAwaitingArguments are the arguments of QEMU that the restart removes, after "- ", and those that it
	// adds, after "+ ".
	RestartAwaitingArguments []string `json:"restartAwaitingArguments,omitempty"`
	// Problems are the differences between the VM and its desired state.
	Problems []Problem `json:"problems,omitempty"`
	// Conditions summarize the rest. They are always complete and in the same order.
	Conditions []Condition `json:"conditions"`

	// Outcome is how the VM ended; nil before.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Runner is the process that controls a VM.
type Runner struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// Control is the control interface for the manager of a cluster.
type Control struct {
	// Port is the TCP port at the pod's address.
	Port int `json:"port"`
	// Key is the hash of the runner's public key, 64 hexadecimal digits (runner/control/remote.KeyHash).
	Key string `json:"key"`
}

// QEMU is the process that a VM runs in.
type QEMU struct {
	// Version is the version that QEMU reports: "7.2.22".
	Version string `json:"version,omitempty"`
	// PID is 0 when there is no process.
	PID int `json:"pid,omitempty"`
	// RunState is QEMU's own state (QAPI type RunState): running, paused, io-error, guest-panicked,
	// internal-error, …
	RunState string `json:"runState,omitempty"`
	// Emulated is the reason why QEMU emulates the guest's CPUs, which is slow, although KVM was permitted. It is
	// empty if QEMU uses KVM, or if emulation was requested.
	Emulated string `json:"emulated,omitempty"`
	// Unprotected lists the displays that have no password although people other than the users of the host can
	// reach them; empty if there are none.
	Unprotected string `json:"unprotected,omitempty"`
	// Unresponsive reports whether an answer of QEMU is overdue for more than 5 seconds.
	Unresponsive bool `json:"unresponsive,omitempty"`
}

// Confinement is how the kernel confines the processes of a VM.
type Confinement struct {
	// Landlock is the version of the kernel's interface; 0 means that it is missing.
	Landlock int `json:"landlock"`
	// OwnRoot reports whether the processes have a root folder that contains only what they need.
	OwnRoot bool `json:"ownRoot"`
	// Exempt are the helpers that confine themselves.
	Exempt []string `json:"exempt,omitempty"`
	// NoLoopback reports whether QEMU is prevented from reaching loopback addresses of the host for the guest.
	NoLoopback bool `json:"noLoopback,omitempty"`
	// Loopback is the reason why the guest reaches the host's loopback addresses although no network has
	// hostLoopback.
	Loopback string `json:"loopback,omitempty"`
	// Lacks lists the missing restrictions, with reasons.
	Lacks []string `json:"lacks,omitempty"`
}

// Guest is what the agents in the guest report. The guest controls it.
type Guest struct {
	OS *OSInfo `json:"os,omitempty"`
	// Interfaces of the guest with their addresses.
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// OSInfo describes the guest's operating system.
type OSInfo = vmstatus.OSInfo

// Interface is a network interface of the guest.
type Interface struct {
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
	// Addresses are CIDRs: "10.0.2.15/24".
	Addresses []string `json:"addresses,omitempty"`
}

// TPM is the state of an emulated TPM's process.
type TPM string

// The states of a TPM.
const (
	// TPMWorks: the process is running.
	TPMWorks TPM = "works"
	// TPMGone: the process has ended while the VM is running.
	TPMGone TPM = "lost"
)

// A Console is a viewer of the VM.
type Console struct {
	// Kind is spice, vnc or serial.
	Kind string `json:"kind"`
	// Client identifies the viewer: an address, a process of this host, or the manager.
	Client string `json:"client"`
	// User is the user for whom the manager has connected; empty if not known.
	User string `json:"user,omitempty"`
	// Mode is ModeType or ModeWatch. If it is empty, QEMU's server decides, and all may type.
	Mode  string    `json:"mode,omitempty"`
	Since time.Time `json:"since"`
}

// Name returns the viewer's name for people: its user, otherwise the client.
func (c Console) Name() string { return cmp.Or(c.User, c.Client) }

// The modes of consoles. At most one viewer of a kind has ModeType.
const (
	ModeType  = "type"
	ModeWatch = "watch"
)

// The kinds of consoles.
const (
	SPICE  = "spice"
	VNC    = "vnc"
	Serial = "serial"
)

// Configuration counts the configurations that were read. For a VM of a cluster the numbers are the resource's
// metadata.generation.
type Configuration struct {
	// Generation is the newest configuration that was read. Applied is the newest configuration that is active,
	// as far as possible without a restart.
	Generation int64 `json:"generation"`
	Applied    int64 `json:"applied"`
	// Compared is the newest configuration with known pending changes.
	Compared int64 `json:"compared"`
	// Resource is the uid of the newest configuration's resource; empty without a resource.
	Resource string `json:"resource,omitempty"`
	// Error is the error in the newest configuration, with line and column; the previous configuration stays
	// active.
	Error string `json:"error,omitempty"`
	// Warnings are about options of the running machine that work but should be changed, such as deprecated options.
	Warnings []string `json:"warnings,omitempty"`
}

// A Change is a difference between the running VM and its configuration.
type Change = vmstatus.Change

// A Problem is a difference between the VM and its desired state.
type Problem struct {
	// Path is the path of the value in the configuration that is not applied. It is empty for an error of the
	// machine.
	Path string `json:"path,omitempty"`
	// Reason is the kind of error in one word; empty with a Path.
	Reason vmstatus.Reason `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// An Outcome is how a VM ended.
type Outcome = vmstatus.Outcome

// Condition returns the condition of a type. If it is missing, its status is Unknown.
func (s Status) Condition(t vmstatus.ConditionType) Condition {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c
		}
	}
	return Condition{Type: t, Status: vmstatus.Unknown}
}

// Advice returns what to do about the VM's state as plain text, or "" if no action is needed.
func (s Status) Advice() string {
	reasons := []vmstatus.Reason{s.Reason}
	for _, c := range s.Conditions {
		if (c.Type == vmstatus.ConditionTPMLost) == (c.Status == vmstatus.True) {
			reasons = append(reasons, c.Reason)
		}
	}
	for _, r := range reasons {
		if advice := vmstatus.AdviceFor(string(r), vmstatus.Explanations); advice != "" {
			return advice
		}
	}
	return ""
}
