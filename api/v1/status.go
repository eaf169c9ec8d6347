package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"vmop/vmstatus"
)

// Phase is the phase of a VM.
//
// +kubebuilder:validation:Enum=Pending;Starting;Running;Migrating;Stopping;Stopped;Terminating;Failed
type Phase string

// The phases of a VM.
const (
	PhasePending     Phase = "Pending"     // it should run, but its pod cannot exist yet, see Reason
	PhaseStarting    Phase = "Starting"    // its pod is starting, its guest is not yet running
	PhaseRunning     Phase = "Running"     // its guest is running
	PhaseMigrating   Phase = "Migrating"   // its guest is running and migrating to another pod
	PhaseStopping    Phase = "Stopping"    // its guest has been asked to shut down
	PhaseStopped     Phase = "Stopped"     // it has no pod, as spec.vm.state requires
	PhaseTerminating Phase = "Terminating" // the resource is being deleted
	PhaseFailed      Phase = "Failed"      // it cannot run, see Reason
)

// Types of conditions; package vmstatus describes each.
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

// MachineConditions returns the types of the runner's conditions that are false without a running
// machine. The others, ConfigApplied and TPMLost, are meaningless without a machine.
func MachineConditions() []string {
	return []string{
		ConditionReady, ConditionRunning, ConditionBooted, ConditionVmopAgent, ConditionUserLoggedIn,
		ConditionConsoleConnected,
	}
}

// VirtualMachineStatus is the state of a VM. The runner reports the state of QEMU and the guest,
// the manager the state of the cluster.
type VirtualMachineStatus struct {
	// Generation of the resource that this status reflects.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Current phase: Pending, Starting, Running, Migrating, Stopping, Stopped, Terminating or
	// Failed. See reason and message for details.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Name of the pod's node.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Number at the end of the name of the VM's pod, 0 or 1. A migration changes it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	PodOrdinal int32 `json:"podOrdinal,omitempty"`
	// Current or latest migration of the guest. Unset if the guest has never migrated.
	//
	// +optional
	Migration *Migration `json:"migration,omitempty"`
	// Report of the runner that the guest is migrating to.
	//
	// +optional
	Arriving *Arriving `json:"arriving,omitempty"`
	// Latest report of the VM's runner about itself.
	//
	// +optional
	Runner *RunnerStatus `json:"runner,omitempty"`
	// Name of the VirtualMachineClass that provides the VM's defaults, now or from the next start.
	// Unset if the VM has no class.
	//
	// +optional
	VirtualMachineClassName string `json:"virtualMachineClassName,omitempty"`
	// Latest consecutive failed starts. Unset if there are none.
	//
	// +optional
	Failures *Failures `json:"failures,omitempty"`
	// VM type of the running machine.
	//
	// +optional
	VMType string `json:"vmType,omitempty"`
	// Generation of the stock VM types that the running machine's type belongs to, such as 2026.1.
	// Unset for types that are older than generations.
	//
	// +optional
	VMTypes string `json:"vmTypes,omitempty"`
	// VM type that spec.vmType.image resolved to. Unset if there is no image, or it hasn't been
	// resolved.
	//
	// +optional
	VMTypeImage *VMTypeImage `json:"vmTypeImage,omitempty"`
	// CPU architecture of the guest, as in the node label kubernetes.io/arch: amd64 or arm64. Unset
	// if it is unknown or no node has it.
	//
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// CPUs and memory that the VM type decided for fields that spec.vm does not set. The VM has them as if spec.vm
	// contained them.
	//
	// +optional
	TypeSizes *TypeSizes `json:"typeSizes,omitempty"`
	// UUID of the machine.
	//
	// +optional
	UUID string `json:"uuid,omitempty"`
	// Version of the runner.
	//
	// +optional
	RunnerVersion string `json:"runnerVersion,omitempty"`
	// Number of CPUs visible to the guest.
	//
	// +kubebuilder:default=0
	CPUs int32 `json:"cpus,omitempty"`
	// Memory available to the guest.
	//
	// +kubebuilder:default="0"
	RAM string `json:"ram,omitempty"`
	// Host of the viewer that is connected to the display.
	//
	// +kubebuilder:default=""
	ConsoleClient string `json:"consoleClient,omitempty"`
	// Name of the user who last requested the console.
	//
	// +kubebuilder:default=""
	ConsoleUser string `json:"consoleUser,omitempty"`
	// Name of the user logged in by the log-in agent.
	//
	// +optional
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// Number of display passwords that have been set. -1 if there is no password.
	//
	// +kubebuilder:default=0
	DisplayPasswordSerial int64 `json:"displayPasswordSerial,omitempty"`
	// Operating system of the guest, as reported by the guest agent (guest-get-osinfo).
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	OSInfo *runtime.RawExtension `json:"osinfo,omitempty"`
	// Network interfaces of the guest, as reported by the guest agent.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Addresses of the guest, the preferred address first. Don't trust addresses with the source
	// Agent: a compromised guest can report any address.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []Address `json:"addresses,omitempty"`
	// Name of the VM's VirtualMachineIPAddress.
	//
	// +optional
	VirtualMachineIPAddressName string `json:"virtualMachineIPAddressName,omitempty"`
	// Changes that need a restart. The runner reports changes that need a new machine, the manager
	// changes that need a new pod.
	//
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=1024
	RestartAwaitingChanges []RestartAwaitingChange `json:"restartAwaitingChanges,omitempty"`
	// Arguments of QEMU that a restart removes ("- " prefix) or adds ("+ " prefix).
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	RestartAwaitingArguments []string `json:"restartAwaitingArguments,omitempty"`
	// Latest restart by the manager, for changes that may still be pending.
	//
	// +optional
	AutomaticRestart *AutomaticRestart `json:"automaticRestart,omitempty"`
	// VirtualDisks and images of the VM.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	BlockDeviceRefs []BlockDeviceStatusRef `json:"blockDeviceRefs,omitempty"`
	// Permissions of the pod beyond the Pod Security level restricted, with their reasons.
	//
	// +optional
	// +listType=atomic
	Privileges []Privilege `json:"privileges,omitempty"`
	// Claims with files that a pod of the VM mounts, and their owners. Only the manager can write
	// this. Information that others write to a claim is ignored.
	//
	// +optional
	// +listType=map
	// +listMapKey=claim
	Volumes []Volume `json:"volumes,omitempty"`
	// Assignment of the VM to a user of a pool.
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

// RunnerStatus is a runner's report about itself. The pod's UID distinguishes reports of the
// current pod from reports of an earlier pod.
type RunnerStatus struct {
	// Name of the runner's pod.
	//
	// +optional
	PodName string `json:"podName,omitempty"`
	// UID of the runner's pod.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// State of the run: Initializing, Starting, Booting, Running, Booted, Terminating or Stopped.
	//
	// +optional
	State string `json:"state,omitempty"`
	// Machine-readable reason for the state.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the state.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// How the machine ended, if state is Stopped.
	//
	// +optional
	Outcome *Outcome `json:"outcome,omitempty"`
	// Newest generation of the definition for which the runner has determined the changes that need
	// a restart.
	//
	// +optional
	ComparedGeneration int64 `json:"comparedGeneration,omitempty"`
	// Address at which the manager reaches the runner.
	//
	// +optional
	Control *RunnerControl `json:"control,omitempty"`
	// Drives that were attached to the running guest, are being attached or detached, or can't be
	// attached.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Drives []RunnerDrive `json:"drives,omitempty"`
	// Configuration revision that drives reflects. 0 if not yet known.
	//
	// +optional
	DrivesRevision int64 `json:"drivesRevision,omitempty"`
	// Whether the runner attaches drives of a server when the server answers, and accepts a
	// server's CD. Runners of earlier versions don't set it and refuse a server's CD.
	//
	// +optional
	AwaitsServers bool `json:"awaitsServers,omitempty"`
}

// RunnerDrive is a drive that was or will be attached to a running guest.
type RunnerDrive struct {
	// Serial number of the drive.
	//
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// Current state: Attaching, Attached, Detaching or Failed.
	State string `json:"state"`
	// Human-readable details: what the drive is waiting for, or the error.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Capacity in bytes. 0 if unknown.
	//
	// +optional
	Capacity int64 `json:"capacity,omitempty"`
}

// BlockDeviceStatusRef is the state of a VM's VirtualDisk or image.
type BlockDeviceStatusRef struct {
	// Kind of the block device: VirtualDisk, VirtualImage or ClusterVirtualImage.
	Kind BlockDeviceKind `json:"kind"`
	// Name of the disk or image.
	Name string `json:"name"`
	// Size of the disk or image.
	//
	// +optional
	Size string `json:"size,omitempty"`
	// Whether the machine has the disk.
	Attached bool `json:"attached"`
	// Access mode of the claim. With ReadWriteMany several nodes can use the disk at the same time.
	//
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// Serial number of the disk in the guest. Linux shows it in /dev/disk/by-id.
	//
	// +optional
	Serial string `json:"serial,omitempty"`
	// Whether the disk was attached while the guest was running.
	//
	// +optional
	Hotplugged bool `json:"hotplugged,omitempty"`
	// Name of the VirtualMachineBlockDeviceAttachment that attached the disk.
	//
	// +optional
	VirtualMachineBlockDeviceAttachmentName string `json:"virtualMachineBlockDeviceAttachmentName,omitempty"`
}

// RunnerControl is the control interface of a runner, at the address of its pod.
type RunnerControl struct {
	// TCP port.
	Port int32 `json:"port"`
	// SHA-256 of the runner's public key (SubjectPublicKeyInfo), in hexadecimal.
	//
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`
}

// Outcome describes how a machine ended.
type Outcome struct {
	// Cause reported by the runner, such as "guest shutdown", "asked" or "crashed".
	Cause string `json:"cause"`
	// QEMU's ShutdownCause, such as "guest-shutdown".
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Exit code of the runner. 0 if the guest or a user ended the machine.
	//
	// +optional
	ExitCode int32 `json:"exitCode,omitempty"`
	// Human-readable details.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
}

// Failures are consecutive failed starts.
type Failures struct {
	// Number of failed starts.
	//
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// Time of the latest failure, by the node's clock.
	LastTime metav1.Time `json:"lastTime"`
	// Time when the manager noticed the latest failure, by its own clock. The delay before the next
	// attempt starts then.
	//
	// +optional
	Noticed *metav1.Time `json:"noticed,omitempty"`
	// Outcome of the latest failed start. The runner's outcome can be newer, if the container
	// restarted before its pod was deleted.
	//
	// +optional
	Last *Outcome `json:"last,omitempty"`
}

// Interface is a network interface of the guest.
type Interface struct {
	// Name of the interface in the guest.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// MAC address of the interface.
	//
	// +optional
	MAC string `json:"mac,omitempty"`
	// IP addresses of the interface.
	//
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
}

// Address is an address at which the guest can be reached.
type Address struct {
	// IP address.
	//
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address"`
	// Name of the guest's interface, as reported by the guest agent.
	//
	// +optional
	Interface string `json:"interface,omitempty"`
	// MAC address of the network card.
	//
	// +optional
	MAC string `json:"mac,omitempty"`
	// Ports that lead to the guest. Unset if all ports do.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Ports []AddressPort `json:"ports,omitempty"`
	// Where the address can be reached from. Network: any host that can reach the network of the
	// address. Pod: only the VM's pod. Unknown: the interface is not a network card of the VM.
	From string `json:"from"`
	// How the address is known: Lease, Configuration, DHCP, or Agent. Agent is unverified
	// information from the guest.
	Source string `json:"source"`
}

// AddressPort is a port at an address of the pod that leads to a port of the guest.
type AddressPort struct {
	// Port at the address.
	Port int32 `json:"port"`
	// Port in the guest.
	Guest int32 `json:"guest"`
	// Protocol of the port: TCP or UDP.
	Protocol corev1.Protocol `json:"protocol"`
}

// Volume is a claim with files, as known to the manager.
type Volume struct {
	// Name of the claim.
	Claim string `json:"claim"`
	// UID of the claim. Empty if the claim doesn't exist. "creating:" with a hash means that the
	// manager is about to create the claim, which it recognizes by a token with this hash.
	UID string `json:"uid"`
	// Reason why the files in the volume are not trusted. Empty if they are trusted.
	Untrusted string `json:"untrusted"`
}

// Privilege is a permission that the pod has because the VM needs it.
type Privilege struct {
	// Name of the privilege: hostNetwork, a capability or a device.
	Name string `json:"name"`
	// Field of the VM that needs the privilege.
	Reason string `json:"reason"`
}

// Assignment is the assignment of a pool's VM to a user.
type Assignment struct {
	// Name of the pool.
	Pool string `json:"pool"`
	// Name of the user.
	User string `json:"user"`
	// Time of the user's last activity: when the user got the VM, or when the user's last viewer
	// connected or disconnected.
	LastUsed metav1.Time `json:"lastUsed"`
	// Time when the user got the VM.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Time from which no user gets the VM, because its pool is about to delete it: it was released
	// and the pool recreates VMs, or the pool has too many VMs. The user can be empty then.
	//
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
}
