package vmstatus

// ConditionStatus is the answer of a condition.
type ConditionStatus string

// The answers.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// ConditionType is the question of a condition.
type ConditionType string

// The types of conditions that the runner reports.
const (
	// ConditionRunning: the guest has been started, and QEMU has not ended. It is
	// true while the VM is being stopped, and while it is paused.
	ConditionRunning ConditionType = "Running"
	// ConditionBooted: the guest's agent has answered since the last start or reset.
	ConditionBooted ConditionType = "Booted"
	// ConditionReady: the guest is running, neither paused nor held up by a fault,
	// and the VM is not being stopped.
	ConditionReady ConditionType = "Ready"
	// ConditionVmopAgent: the log-in agent of the guest is connected.
	ConditionVmopAgent ConditionType = "VmopAgentConnected"
	// ConditionUserLoggedIn: the configured user is logged in.
	ConditionUserLoggedIn ConditionType = "UserLoggedIn"
	// ConditionConsoleConnected: a viewer of the screen is connected, by SPICE or VNC.
	ConditionConsoleConnected ConditionType = "ConsoleConnected"
	// ConditionConfigApplied: the newest configuration is in force, except for what
	// awaits a restart.
	ConditionConfigApplied ConditionType = "ConfigApplied"
	// ConditionRestartRequired: changes of the configuration await a restart. In a
	// cluster the manager reports it, which knows of more changes.
	ConditionRestartRequired ConditionType = "RestartRequired"
	// ConditionTPMLost: the process that emulates the TPM has ended. The guest
	// continues without it, and cannot be reset.
	ConditionTPMLost ConditionType = "TPMLost"
	// ConditionConfined: the kernel holds QEMU and its helpers to what the plan says
	// that they need.
	ConditionConfined ConditionType = "Confined"
)

// The types of conditions that the manager reports.
const (
	// ConditionVMTypeAccepted: the VM type computes a plan for this VM.
	ConditionVMTypeAccepted ConditionType = "VMTypeAccepted"
	// ConditionReconciled: the cluster holds what the definition asks for.
	ConditionReconciled ConditionType = "Reconciled"
	// ConditionMigratable: the VM can move to another node while it runs.
	ConditionMigratable ConditionType = "Migratable"
	// ConditionSizingMatched: the size of the VM is one that its class allows.
	ConditionSizingMatched ConditionType = "SizingPolicyMatched"
)
