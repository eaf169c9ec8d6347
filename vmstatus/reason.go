package vmstatus

// Reason says in one word why a VM is in its state, or why a condition has its
// status.
type Reason string

// The reasons that go with the states unless another is given.
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
	// ReasonVMReset: the guest was reset and boots again.
	ReasonVMReset Reason = "VmReset"
	// ReasonRunnerRestarted: another runner started the VM, this one continues it.
	ReasonRunnerRestarted Reason = "RunnerRestarted"
	// ReasonPreparingDisks: before it is started, disks are made of images.
	ReasonPreparingDisks Reason = "PreparingDisks"
	// ReasonStartFailed: the guest was never started.
	ReasonStartFailed Reason = "StartFailed"
	// ReasonDataMissing is ReasonStartFailed because a file can't be used from which the
	// guest was to configure itself.
	ReasonDataMissing Reason = "GuestDataMissing"
)

// Reasons of conditions, besides those of the states.
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

// Reasons of faults of the machine.
const (
	// ReasonIOError: a disk has failed, and the guest waits for it.
	ReasonIOError Reason = "IOError"
	// ReasonGuestPanicked: the guest has panicked.
	ReasonGuestPanicked Reason = "GuestPanicked"
	// ReasonTPMLost: the process that emulates the TPM has ended.
	ReasonTPMLost Reason = "TPMLost"
	// ReasonHelperLost: another process beside QEMU has ended.
	ReasonHelperLost Reason = "HelperLost"
	// ReasonMachineFailed: KVM or QEMU could not continue the guest.
	ReasonMachineFailed Reason = "MachineFailed"
	// ReasonWatchdogExpired: the guest didn't serve its watchdog.
	ReasonWatchdogExpired Reason = "WatchdogExpired"
	// ReasonMemoryFailure: memory of the host is broken.
	ReasonMemoryFailure Reason = "MemoryFailure"
	// ReasonImageCorrupted: QEMU has found a disk's image file inconsistent.
	ReasonImageCorrupted Reason = "ImageCorrupted"
	// ReasonDirectoryLost: the VM's data or runtime directory is not in its place any more.
	ReasonDirectoryLost Reason = "DirectoryLost"
)
