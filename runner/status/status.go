package status

import (
	"cmp"
	"time"

	"vmop/vmstatus"
)

// Status is what is known about a VM. Slices and pointers in it are never
// changed, only replaced: a copy of a Status is a snapshot.
type Status struct {
	// Name is that of the configuration.
	Name string `json:"name"`
	// UUID of the machine.
	UUID string `json:"uuid,omitempty"`
	// VMType is the name of the VM type.
	VMType string `json:"vmType,omitempty"`

	// State, and why the VM is in it: one word, and a text for people.
	State   vmstatus.State  `json:"state"`
	Reason  vmstatus.Reason `json:"reason"`
	Message string          `json:"message,omitempty"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// Started is when the guest began to run; nil before.
	Started *time.Time `json:"started,omitempty"`

	// Runner is the process that looks after the VM.
	Runner Runner `json:"runner"`
	// Control is where the manager reaches the runner; nil: nowhere.
	Control *Control `json:"control,omitempty"`
	// QEMU is the process that the VM runs in.
	QEMU QEMU `json:"qemu"`

	// CPUs is how many the guest has now, 0 when it doesn't run or it is not known
	// yet.
	CPUs int `json:"cpus"`
	// RAM is what the balloon leaves to the guest, in bytes, 0 when it doesn't
	// run.
	RAM int64 `json:"ram"`

	// Guest is what the agents in the guest say; nil as long as none did.
	Guest *Guest `json:"guest,omitempty"`
	// Addresses are where the guest answers, the best first; at most MaxAddresses.
	Addresses []Address `json:"addresses,omitempty"`
	cards     Cards     // from which they follow
	// WantedUser is the user to log in, LoggedInUser the one that is logged in.
	WantedUser   string `json:"wantedUser,omitempty"`
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// LoginFailure is why the wanted user is not logged in, in the agent's words.
	LoginFailure string `json:"loginFailure,omitempty"`
	// VmopAgent reports whether the log-in agent in the guest is connected.
	VmopAgent bool `json:"vmopAgent"`

	// Confinement is what the kernel holds QEMU and its helpers to; nil before QEMU
	// runs, and if an earlier runner that started it has not recorded it.
	Confinement *Confinement `json:"confinement,omitempty"`

	// Frozen tells that the guest's file systems are frozen, or may be; nil: they are not, as far
	// as the runner has frozen them.
	Frozen *Frozen `json:"frozen,omitempty"`

	// Migration tells that the guest is being moved; nil: it isn't.
	Migration *Migration `json:"migration,omitempty"`

	// Drives are those that were attached while the guest runs, are being attached or
	// detached, or can't be.
	Drives []Drive `json:"drives,omitempty"`
	// DrivesRevision is that of the configuration (drivesRevision) by which Drives are all that there
	// are; 0: that is not known yet.
	DrivesRevision int64 `json:"drivesRevision,omitempty"`

	// TPM reports whether the machine's TPM, a process beside QEMU, lives; empty
	// when it has none.
	TPM TPM `json:"tpm,omitempty"`

	// Consoles are those who look at the VM now, in the order they came.
	Consoles []Console `json:"consoles,omitempty"`
	// DisplayPasswordSerial counts the changes of the display's password; -1
	// means that there is none.
	DisplayPasswordSerial int `json:"displayPasswordSerial"`

	// Configuration tells which one was read and which one is in force.
	Configuration Configuration `json:"configuration"`
	// RestartAwaitingChanges are those that await a restart of the VM.
	RestartAwaitingChanges []Change `json:"restartAwaitingChanges,omitempty"`
	// RestartAwaitingArguments are those of QEMU that the restart takes away, behind "- ", and
	// those that it adds, behind "+ ".
	RestartAwaitingArguments []string `json:"restartAwaitingArguments,omitempty"`
	// Problems are what stands between the VM and how it should be.
	Problems []Problem `json:"problems,omitempty"`
	// Conditions sum up the rest, always all of them in the same order.
	Conditions []Condition `json:"conditions"`

	// Outcome is how the VM ended; nil before.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Runner is the process that looks after a VM.
type Runner struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// Control is the control interface for the manager of a cluster.
type Control struct {
	// Port of TCP, at the address of the pod.
	Port int `json:"port"`
	// Key is the hash of the runner's public key, 64 hexadecimal digits
	// (runner/control/remote.KeyHash).
	Key string `json:"key"`
}

// QEMU is the process that a VM runs in.
type QEMU struct {
	// Version as QEMU tells it: "7.2.22".
	Version string `json:"version,omitempty"`
	// PID is 0 when there is no process.
	PID int `json:"pid,omitempty"`
	// RunState is QEMU's word (QAPI type RunState): running, paused, io-error,
	// guest-panicked, internal-error, …
	RunState string `json:"runState,omitempty"`
	// Emulated says why QEMU emulates the guest's CPUs, which is slow, though KVM
	// was welcome; empty if it doesn't, or if that was asked for.
	Emulated string `json:"emulated,omitempty"`
	// Unprotected says which displays have no password though others than the users
	// of the host reach them; empty if there are none.
	Unprotected string `json:"unprotected,omitempty"`
	// Unresponsive says that QEMU owes an answer for more than 5 seconds.
	Unresponsive bool `json:"unresponsive,omitempty"`
}

// Confinement is what the kernel holds the processes of a VM to.
type Confinement struct {
	// Landlock is the version of the kernel's interface; 0 means that there is none.
	Landlock int `json:"landlock"`
	// OwnRoot reports whether the processes have a root folder with nothing but what they
	// need.
	OwnRoot bool `json:"ownRoot"`
	// Exempt are the helpers that confine themselves.
	Exempt []string `json:"exempt,omitempty"`
	// NoLoopback reports whether QEMU reaches no loopback address of the host for the guest.
	NoLoopback bool `json:"noLoopback,omitempty"`
	// Loopback says why the guest reaches the host's loopback addresses, though no network has hostLoopback.
	Loopback string `json:"loopback,omitempty"`
	// Lacks says what does not hold, and why.
	Lacks []string `json:"lacks,omitempty"`
}

// Guest is what the agents in the guest say. It is the guest's word.
type Guest struct {
	OS *OSInfo `json:"os,omitempty"`
	// Interfaces of the guest with their addresses.
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// OSInfo is the answer to guest-get-osinfo, with the names of QEMU's guest
// agent. What the guest does not tell is empty.
type OSInfo struct {
	ID            string `json:"id,omitempty"`
	Name          string `json:"name,omitempty"`
	PrettyName    string `json:"pretty-name,omitempty"`
	Version       string `json:"version,omitempty"`
	VersionID     string `json:"version-id,omitempty"`
	Variant       string `json:"variant,omitempty"`
	VariantID     string `json:"variant-id,omitempty"`
	KernelRelease string `json:"kernel-release,omitempty"`
	KernelVersion string `json:"kernel-version,omitempty"`
	Machine       string `json:"machine,omitempty"`
}

// Interface is a network interface of the guest.
type Interface struct {
	Name string `json:"name"`
	MAC  string `json:"mac,omitempty"`
	// Addresses are CIDRs: "10.0.2.15/24".
	Addresses []string `json:"addresses,omitempty"`
}

// TPM is the state of a TPM that is emulated by a process.
type TPM string

// The states of a TPM.
const (
	// TPMWorks: the process runs.
	TPMWorks TPM = "works"
	// TPMGone: it has ended, while the VM runs.
	TPMGone TPM = "lost"
)

// A Console is a viewer of the VM.
type Console struct {
	// Kind is spice, vnc or serial.
	Kind string `json:"kind"`
	// Client says who: an address, a process of this host, or the manager.
	Client string `json:"client"`
	// User is the user for whom the manager has connected; empty: not known.
	User string `json:"user,omitempty"`
	// Mode is ModeType or ModeWatch; empty: QEMU's server decides, and all may type.
	Mode  string    `json:"mode,omitempty"`
	Since time.Time `json:"since"`
}

// Name is the viewer's for people: its user, or else the client.
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

// Configuration counts the configurations that were read. Where the VM comes
// from a cluster the numbers are the resource's metadata.generation.
type Configuration struct {
	// Generation is the newest that was read, Applied the newest that is in
	// force as far as it can be without a restart.
	Generation int64 `json:"generation"`
	Applied    int64 `json:"applied"`
	// Compared is the newest of which it is known what awaits a restart.
	Compared int64 `json:"compared"`
	// Resource is the uid of the resource that the newest was made of; empty
	// means of none.
	Resource string `json:"resource,omitempty"`
	// Error says what is wrong with the newest one, with line and column; the
	// one before stays in force.
	Error string `json:"error,omitempty"`
}

// A Change is a difference between the running VM and its configuration.
type Change struct {
	// Path of the value in the configuration: "vm.maximumCpus".
	Path string `json:"path"`
	// Operation is add, remove or replace.
	Operation string `json:"operation"`
	// CurrentValue is what the VM runs with, DesiredValue what is configured.
	CurrentValue any `json:"currentValue,omitempty"`
	DesiredValue any `json:"desiredValue,omitempty"`
}

// A Problem is something that is not as it should be.
type Problem struct {
	// Path of the value in the configuration that is not obeyed, or empty: then
	// it is a fault of the machine.
	Path string `json:"path,omitempty"`
	// Reason says in one word what kind of fault it is; empty with a Path.
	Reason vmstatus.Reason `json:"reason,omitempty"`
	// Message for people.
	Message string `json:"message"`
}

// An Outcome is how a VM ended.
type Outcome struct {
	// Cause says what ended it.
	Cause vmstatus.Cause `json:"cause"`
	// Reason is QEMU's ShutdownCause, "guest-shutdown", or empty.
	Reason string `json:"reason,omitempty"`
	// ExitCode is the runner's.
	ExitCode int `json:"exitCode"`
	// Message for people.
	Message string `json:"message,omitempty"`
}

// Condition returns the condition of a type; its status is Unknown if there is
// none.
func (s Status) Condition(t vmstatus.ConditionType) Condition {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c
		}
	}
	return Condition{Type: t, Status: vmstatus.Unknown}
}
