package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"vmop/vmstatus"
)

// Phase is the VM's state in one word.
//
// +kubebuilder:validation:Enum=Pending;Starting;Running;Migrating;Stopping;Stopped;Terminating;Failed
type Phase string

// The phases of a VM.
const (
	PhasePending     Phase = "Pending"     // it is to run, but its pod cannot exist yet: Reason says why
	PhaseStarting    Phase = "Starting"    // its pod is starting, its guest is not running yet
	PhaseRunning     Phase = "Running"     // its guest is running
	PhaseMigrating   Phase = "Migrating"   // its guest is running, and is being moved to another pod
	PhaseStopping    Phase = "Stopping"    // its guest has been asked to shut down
	PhaseStopped     Phase = "Stopped"     // it has no pod, as spec.vm.state says
	PhaseTerminating Phase = "Terminating" // the resource is being deleted
	PhaseFailed      Phase = "Failed"      // it cannot run as it is: Reason says why
)

// Types of conditions; package vmstatus has what each means.
const (
	ConditionReady            = string(vmstatus.ConditionReady)
	ConditionRunning          = string(vmstatus.ConditionRunning)
	ConditionBooted           = string(vmstatus.ConditionBooted)
	ConditionVmopAgent        = string(vmstatus.ConditionVmopAgent)
	ConditionUserLoggedIn     = string(vmstatus.ConditionUserLoggedIn)
	ConditionConsoleConnected = string(vmstatus.ConditionConsoleConnected)
	ConditionVMTypeAccepted   = string(vmstatus.ConditionVMTypeAccepted)
	ConditionReconciled       = string(vmstatus.ConditionReconciled)
	ConditionConfigApplied    = string(vmstatus.ConditionConfigApplied)
	ConditionRestartRequired  = string(vmstatus.ConditionRestartRequired)
	ConditionMigratable       = string(vmstatus.ConditionMigratable)
	ConditionTPMLost          = string(vmstatus.ConditionTPMLost)
	ConditionSizingMatched    = string(vmstatus.ConditionSizingMatched)
)

// ManagerConditions returns the types of the conditions that the manager writes; the
// others are the runner's.
func ManagerConditions() []string {
	return []string{
		ConditionVMTypeAccepted, ConditionRestartRequired, ConditionReconciled, ConditionMigratable,
		ConditionSizingMatched,
	}
}

// MachineConditions returns the types of the runner's conditions that are false without
// a running machine. The others, ConfigApplied and TPMLost, say nothing then.
func MachineConditions() []string {
	return []string{
		ConditionReady, ConditionRunning, ConditionBooted, ConditionVmopAgent, ConditionUserLoggedIn,
		ConditionConsoleConnected,
	}
}

// VirtualMachineStatus is the state of a VM. The runner writes what it knows of QEMU and
// the guest, the manager what it knows of the cluster.
type VirtualMachineStatus struct {
	// ObservedGeneration is the generation that the manager has reconciled.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is the state in one word. Reason and Message say why.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message about the phase, for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// NodeName is the node of the pod.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// PodOrdinal is the number at the end of the name of the VM's pod. A migration changes it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	PodOrdinal int32 `json:"podOrdinal,omitempty"`
	// Migration is the latest move of the guest to another pod. Absent: it has never been moved.
	//
	// +optional
	Migration *Migration `json:"migration,omitempty"`
	// Arriving is what the runner reports to which the guest is to move.
	//
	// +optional
	Arriving *Arriving `json:"arriving,omitempty"`
	// Runner is what the VM's runner last reported about itself.
	//
	// +optional
	Runner *RunnerStatus `json:"runner,omitempty"`
	// VirtualMachineClassName is the class that the VM has taken what it leaves out from, or
	// takes it from at the next start. Absent: none.
	//
	// +optional
	VirtualMachineClassName string `json:"virtualMachineClassName,omitempty"`
	// Failures are the latest failed starts in a row. Absent: none.
	//
	// +optional
	Failures *Failures `json:"failures,omitempty"`
	// VMType is the type of the running machine.
	//
	// +optional
	VMType string `json:"vmType,omitempty"`
	// VMTypeImage is what spec.vmType.image has meant when it was looked up last. Absent: it has no
	// image, or it hasn't been looked up.
	//
	// +optional
	VMTypeImage *VMTypeImage `json:"vmTypeImage,omitempty"`
	// Architecture is that of the guest by its VM type, as nodes have it in the label
	// kubernetes.io/arch: amd64, arm64. Absent: it isn't known, or no node's.
	//
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// UUID is the machine's.
	//
	// +optional
	UUID string `json:"uuid,omitempty"`
	// RunnerVersion is that of the runner that runs the VM.
	//
	// +optional
	RunnerVersion string `json:"runnerVersion,omitempty"`
	// CPUs is how many CPUs the guest has.
	//
	// +kubebuilder:default=0
	CPUs int32 `json:"cpus,omitempty"`
	// RAM is how much memory the guest has.
	//
	// +kubebuilder:default="0"
	RAM string `json:"ram,omitempty"`
	// ConsoleClient is the host of the viewer that is connected to the display.
	//
	// +kubebuilder:default=""
	ConsoleClient string `json:"consoleClient,omitempty"`
	// ConsoleUser is the user who last asked for the console.
	//
	// +kubebuilder:default=""
	ConsoleUser string `json:"consoleUser,omitempty"`
	// LoggedInUser is the user whom the log-in agent has logged in.
	//
	// +optional
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// DisplayPasswordSerial counts the display passwords that have been set; -1 means
	// that there is none.
	//
	// +kubebuilder:default=0
	DisplayPasswordSerial int64 `json:"displayPasswordSerial,omitempty"`
	// OSInfo is what the guest agent reports about the operating system
	// (guest-get-osinfo).
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	OSInfo *runtime.RawExtension `json:"osinfo,omitempty"`
	// Interfaces are the guest's network interfaces, as its agent reports them.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Addresses are where the guest answers, the best first. What the guest's agent says is
	// the guest's word.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []Address `json:"addresses,omitempty"`
	// VirtualMachineIPAddressName is the VirtualMachineIPAddress that the VM has.
	//
	// +optional
	VirtualMachineIPAddressName string `json:"virtualMachineIPAddressName,omitempty"`
	// RestartAwaitingChanges wait for a restart. The runner writes those that need a new machine,
	// the manager those that need a new pod.
	//
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=1024
	RestartAwaitingChanges []RestartAwaitingChange `json:"restartAwaitingChanges,omitempty"`
	// RestartAwaitingArguments are QEMU's arguments that a restart takes away, behind "- ", and
	// those that it adds, behind "+ ".
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	RestartAwaitingArguments []string `json:"restartAwaitingArguments,omitempty"`
	// AutomaticRestart is the manager's latest restart for changes that may still await one.
	//
	// +optional
	AutomaticRestart *AutomaticRestart `json:"automaticRestart,omitempty"`
	// BlockDeviceRefs are the disks of the VM that outlive it.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	BlockDeviceRefs []BlockDeviceStatusRef `json:"blockDeviceRefs,omitempty"`
	// Privileges are what the pod may do beyond Pod Security's level restricted, and why.
	//
	// +optional
	// +listType=atomic
	Privileges []Privilege `json:"privileges,omitempty"`
	// Volumes are the claims with files that a pod of the VM mounts, and whose they are.
	// Only the manager can write this: what others write into a claim doesn't count.
	//
	// +optional
	// +listType=map
	// +listMapKey=claim
	Volumes []Volume `json:"volumes,omitempty"`
	// Assignment is the user to whom the VM is assigned.
	//
	// +optional
	Assignment *Assignment `json:"assignment,omitempty"`
	// Conditions of the VM.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:default={{type:"Running",status:"False",reason:"Creation",message:"Creation of CR",observedGeneration:1,lastTransitionTime:"1970-01-01T00:00:00Z"},{type:"Booted",status:"False",reason:"Creation",message:"Creation of CR",observedGeneration:1,lastTransitionTime:"1970-01-01T00:00:00Z"},{type:"VmopAgentConnected",status:"False",reason:"Creation",message:"Creation of CR",observedGeneration:1,lastTransitionTime:"1970-01-01T00:00:00Z"},{type:"UserLoggedIn",status:"False",reason:"Creation",message:"Creation of CR",observedGeneration:1,lastTransitionTime:"1970-01-01T00:00:00Z"},{type:"ConsoleConnected",status:"False",reason:"Creation",message:"Creation of CR",observedGeneration:1,lastTransitionTime:"1970-01-01T00:00:00Z"}}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RunnerStatus is what a runner reports about itself. The pod's uid distinguishes reports
// of the present pod from those of an earlier one.
type RunnerStatus struct {
	// PodName of the runner.
	//
	// +optional
	PodName string `json:"podName,omitempty"`
	// PodUID is that pod's uid.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// State of the run: Initializing, Starting, Booting, Running, Booted,
	// Terminating or Stopped.
	//
	// +optional
	State string `json:"state,omitempty"`
	// Reason of the state, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message about the state, for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Outcome is how the machine ended, if State is Stopped.
	//
	// +optional
	Outcome *Outcome `json:"outcome,omitempty"`
	// ComparedGeneration is the newest generation of the definition of which the runner knows
	// what awaits a restart.
	//
	// +optional
	ComparedGeneration int64 `json:"comparedGeneration,omitempty"`
	// Control is where the manager reaches the runner.
	//
	// +optional
	Control *RunnerControl `json:"control,omitempty"`
	// Drives are those that were attached while the guest runs, are being attached or
	// detached, or can't be.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Drives []RunnerDrive `json:"drives,omitempty"`
	// DrivesRevision is that of the configuration by which Drives has all of them. 0: it is not
	// known yet which there are.
	//
	// +optional
	DrivesRevision int64 `json:"drivesRevision,omitempty"`
	// AwaitsServers: a drive is attached when its server answers, however late, and it may be a CD. Runners
	// of earlier versions don't say so, and refuse a CD of a server.
	//
	// +optional
	AwaitsServers bool `json:"awaitsServers,omitempty"`
}

// RunnerDrive is a drive that was attached while the guest runs, or is to be.
type RunnerDrive struct {
	// Name is the serial number.
	//
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// State is Attaching, Attached, Detaching or Failed.
	State string `json:"state"`
	// Message says what is waited for, or what is wrong.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Capacity in bytes. 0: it is not known.
	//
	// +optional
	Capacity int64 `json:"capacity,omitempty"`
}

// BlockDeviceStatusRef is a disk of the VM that outlives it, as it is.
type BlockDeviceStatusRef struct {
	// Kind is VirtualDisk.
	Kind BlockDeviceKind `json:"kind"`
	// Name of the disk.
	Name string `json:"name"`
	// Size of the disk.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// Attached: the machine has the disk.
	Attached bool `json:"attached"`
	// AccessMode of its claim: with ReadWriteMany several nodes can have it at a time.
	//
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// Serial is the number by which the guest knows the disk, in Linux in /dev/disk/by-id.
	//
	// +optional
	Serial string `json:"serial,omitempty"`
	// Hotplugged: it was attached while the guest runs.
	//
	// +optional
	Hotplugged bool `json:"hotplugged,omitempty"`
	// VirtualMachineBlockDeviceAttachmentName is the attachment by which it is there.
	//
	// +optional
	VirtualMachineBlockDeviceAttachmentName string `json:"virtualMachineBlockDeviceAttachmentName,omitempty"`
}

// RunnerControl is the control interface of a runner, at the address of its pod.
type RunnerControl struct {
	// Port of TCP.
	Port int32 `json:"port"`
	// Key is the SHA-256 of the runner's public key (SubjectPublicKeyInfo), in hexadecimal.
	//
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`
}

// Outcome is how a machine ended.
type Outcome struct {
	// Cause is one of the runner's, such as "guest shutdown", "asked" or "crashed".
	Cause string `json:"cause"`
	// Reason is QEMU's ShutdownCause, such as "guest-shutdown".
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// ExitCode of the runner: 0 if the guest or a user ended the machine.
	//
	// +optional
	ExitCode int32 `json:"exitCode,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
}

// Failures are starts in a row that failed.
type Failures struct {
	// Count of them.
	//
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// LastTime is when the last one failed, by the clock of its node.
	LastTime metav1.Time `json:"lastTime"`
	// Noticed is when the manager noticed it, by its own clock: the delay before the next
	// attempt is counted from then.
	//
	// +optional
	Noticed *metav1.Time `json:"noticed,omitempty"`
	// Last is how the last one failed. The runner's outcome can be newer, if the
	// container was started again before its pod was deleted.
	//
	// +optional
	Last *Outcome `json:"last,omitempty"`
}

// Interface is a network interface of the guest.
type Interface struct {
	// Name in the guest.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// MAC is the hardware address.
	//
	// +optional
	MAC string `json:"mac,omitempty"`
	// IPs are its addresses.
	//
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
}

// Address is where the guest answers.
type Address struct {
	// Address is an IP address.
	//
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address"`
	// Interface of the guest, as its agent calls it.
	//
	// +optional
	Interface string `json:"interface,omitempty"`
	// MAC is the hardware address of the card.
	//
	// +optional
	MAC string `json:"mac,omitempty"`
	// Ports are those that lead to the guest. Absent: all do.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Ports []AddressPort `json:"ports,omitempty"`
	// From says from where the guest is reached: Network, whatever reaches the network of the
	// address; Pod, the VM's pod alone; Unknown, the interface is no card of the VM.
	From string `json:"from"`
	// Source says how the address is known: Lease, Configuration, DHCP, or Agent, the guest's
	// word.
	Source string `json:"source"`
}

// AddressPort is a port at an address of the pod that leads to one of the guest.
type AddressPort struct {
	// Port at the address.
	Port int32 `json:"port"`
	// Guest is the guest's port.
	Guest int32 `json:"guest"`
	// Protocol is TCP or UDP.
	Protocol corev1.Protocol `json:"protocol"`
}

// Volume is a claim with files, as the manager knows it.
type Volume struct {
	// Claim is the name of the claim.
	Claim string `json:"claim"`
	// UID of the claim; empty if there is none. "creating:" and a hash means that the manager
	// is about to create the one that has the token of this hash.
	UID string `json:"uid"`
	// Untrusted says why the files in the volume are not trusted; empty if they are.
	Untrusted string `json:"untrusted"`
}

// Privilege is something that the pod may do because the VM needs it.
type Privilege struct {
	// Name of the privilege: hostNetwork, a capability, a device.
	Name string `json:"name"`
	// Reason is the field of the VM that needs it.
	Reason string `json:"reason"`
}

// Assignment of a VM in a pool to a user.
type Assignment struct {
	// Pool that the VM was taken from.
	Pool string `json:"pool"`
	// User to whom it is assigned.
	User string `json:"user"`
	// LastUsed is when the user last used it: when they got it, or their last viewer came or went.
	LastUsed metav1.Time `json:"lastUsed"`
	// Since is when the user got it.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Released is from when on no user gets the VM, because its pool is about to delete it: it was given back, and the
	// pool makes VMs anew, or it is one too many. Then there may be no user.
	//
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
}
