package status

import "vmop/vmstatus"

// Words of package vmstatus, by the names that they had here.
type (
	State           = vmstatus.State
	Reason          = vmstatus.Reason
	ConditionType   = vmstatus.ConditionType
	ConditionStatus = vmstatus.ConditionStatus
	Cause           = vmstatus.Cause
)

// Words of package vmstatus, by the names that they had here.
const (
	Initializing          = vmstatus.StateInitializing
	Starting              = vmstatus.StateStarting
	Booting               = vmstatus.StateBooting
	Booted                = vmstatus.StateBooted
	Terminating           = vmstatus.StateTerminating
	Stopped               = vmstatus.StateStopped
	RunnerStarted         = vmstatus.ReasonRunnerStarted
	VMStarted             = vmstatus.ReasonVMStarted
	VMBooted              = vmstatus.ReasonVMBooted
	VMTerminating         = vmstatus.ReasonVMTerminating
	VMStopped             = vmstatus.ReasonVMStopped
	VMReset               = vmstatus.ReasonVMReset
	RunnerRestarted       = vmstatus.ReasonRunnerRestarted
	StartFailed           = vmstatus.ReasonStartFailed
	VmopAgentStarted      = vmstatus.ReasonVmopAgentStarted
	VmopAgentDisconnected = vmstatus.ReasonVmopAgentDisconnected
	NotRequested          = vmstatus.ReasonNotRequested
	Processing            = vmstatus.ReasonProcessing
	LoginFailed           = vmstatus.ReasonLoginFailed
	Connected             = vmstatus.ReasonConnected
	Disconnected          = vmstatus.ReasonDisconnected
	Applying              = vmstatus.ReasonApplying
	ConfigInvalid         = vmstatus.ReasonConfigInvalid
	NotPossible           = vmstatus.ReasonNotPossible
	ChangesPending        = vmstatus.ReasonChangesPending
	NothingPending        = vmstatus.ReasonNothingPending
	Paused                = vmstatus.ReasonPaused
	IOError               = vmstatus.ReasonIOError
	GuestPanicked         = vmstatus.ReasonGuestPanicked
	MachineHeld           = vmstatus.ReasonMachineHeld
	NoTPM                 = vmstatus.ReasonNoTPM
	TPMPresent            = vmstatus.ReasonTPMPresent
	HelperEnded           = vmstatus.ReasonHelperEnded
	HelperLost            = vmstatus.ReasonHelperLost
	MachineFailed         = vmstatus.ReasonMachineFailed
	WatchdogExpired       = vmstatus.ReasonWatchdogExpired
	MemoryFailure         = vmstatus.ReasonMemoryFailure
	ImageCorrupted        = vmstatus.ReasonImageCorrupted
	UserIn                = vmstatus.ReasonLoggedIn
	ConfigInForce         = vmstatus.ReasonApplied
	QEMUUnresponsive      = vmstatus.ReasonUnresponsive
	Running               = vmstatus.ConditionRunning
	IsBooted              = vmstatus.ConditionBooted
	Ready                 = vmstatus.ConditionReady
	VmopAgentConnected    = vmstatus.ConditionVmopAgent
	UserLoggedIn          = vmstatus.ConditionUserLoggedIn
	ConsoleConnected      = vmstatus.ConditionConsoleConnected
	ConfigApplied         = vmstatus.ConditionConfigApplied
	RestartRequired       = vmstatus.ConditionRestartRequired
	TPMLost               = vmstatus.ConditionTPMLost
	True                  = vmstatus.True
	False                 = vmstatus.False
	Unknown               = vmstatus.Unknown
	CauseGuest            = vmstatus.CauseGuest
	CauseReset            = vmstatus.CauseReset
	CausePanic            = vmstatus.CausePanic
	CauseTPM              = vmstatus.CauseTPM
	CauseAsked            = vmstatus.CauseAsked
	CauseForced           = vmstatus.CauseForced
	CauseCrashed          = vmstatus.CauseCrashed
	CauseKilled           = vmstatus.CauseKilled
	CauseStart            = vmstatus.CauseStart
)
