package vmstatus

// Reason is the reason for the state of a VM or the status of a condition, in one word.
type Reason string

// The default reasons of the states.
const (
	ReasonRunnerStarted Reason = "RunnerStarted" // Initializing, Starting
	ReasonVMStarted     Reason = "VmStarted"     // Booting
	ReasonNoGuestAgent  Reason = "NoGuestAgent"  // Running
	ReasonVMBooted      Reason = "VmBooted"      // Booted
	ReasonVMTerminating Reason = "VmTerminating" // Terminating
	ReasonVMStopped     Reason = "VmStopped"     // Stopped
)

// The other reasons of states.
const (
	// ReasonVMReset means that the guest was reset and boots again.
	ReasonVMReset Reason = "VmReset"
	// ReasonRunnerRestarted means that another runner started the VM, and this runner continues it.
	ReasonRunnerRestarted Reason = "RunnerRestarted"
	// ReasonPreparingDisks means that disks are created from images before the start.
	ReasonPreparingDisks Reason = "PreparingDisks"
	// ReasonStartFailed means that the guest was never started.
	ReasonStartFailed Reason = "StartFailed"
	// ReasonDataMissing means that the start failed because a file with the guest's configuration data is
	// unusable.
	ReasonDataMissing Reason = "GuestDataMissing"
)

// Reasons for conditions, in addition to the reasons for states.
const (
	ReasonVmopAgentStarted      Reason = "VmopAgentStarted"
	ReasonVmopAgentDisconnected Reason = "VmopAgentDisconnected"
	ReasonLoggedIn              Reason = "LoggedIn"
	ReasonNotRequested          Reason = "NotRequested"
	ReasonProcessing            Reason = "Processing"
	ReasonLoginFailed           Reason = "LoginFailed"
	ReasonConnected             Reason = "Connected"
	ReasonDisconnected          Reason = "Disconnected"
	ReasonApplied               Reason = "Applied"
	ReasonApplying              Reason = "Applying"
	ReasonConfigInvalid         Reason = "ConfigInvalid"
	ReasonNotPossible           Reason = "NotPossible"
	ReasonNotReset              Reason = "NotReset"
	ReasonChangesPending        Reason = "ChangesPending"
	ReasonNothingPending        Reason = "NothingPending"
	ReasonPaused                Reason = "Paused"
	ReasonMachineHeld           Reason = "MachineHeld"
	ReasonUnresponsive          Reason = "Unresponsive"
	ReasonNoTPM                 Reason = "NoTPM"
	ReasonTPMPresent            Reason = "TPMPresent"
	ReasonHelperEnded           Reason = "HelperEnded"
	ReasonConfined              Reason = "Confined"
	ReasonPartlyConfined        Reason = "PartlyConfined"
	ReasonNotConfined           Reason = "NotConfined"
	ReasonNotRecorded           Reason = "NotRecorded"
)

// Reasons for errors of the machine.
const (
	// ReasonIOError means that a disk has failed, and the guest waits for it.
	ReasonIOError Reason = "IOError"
	// ReasonGuestPanicked means that the guest has panicked.
	ReasonGuestPanicked Reason = "GuestPanicked"
	// ReasonTPMLost means that the process that emulates the TPM has ended.
	ReasonTPMLost Reason = "TPMLost"
	// ReasonHelperLost means that another helper process has ended.
	ReasonHelperLost Reason = "HelperLost"
	// ReasonMachineFailed means that KVM or QEMU could not continue the guest.
	ReasonMachineFailed Reason = "MachineFailed"
	// ReasonWatchdogExpired means that the guest has not reset its watchdog in time.
	ReasonWatchdogExpired Reason = "WatchdogExpired"
	// ReasonMemoryFailure means that memory of the host is defective.
	ReasonMemoryFailure Reason = "MemoryFailure"
	// ReasonImageCorrupted means that QEMU has found an inconsistency in a disk's image file.
	ReasonImageCorrupted Reason = "ImageCorrupted"
	// ReasonDirectoryLost means that the VM's data or runtime directory has disappeared or was replaced.
	ReasonDirectoryLost Reason = "DirectoryLost"
)
