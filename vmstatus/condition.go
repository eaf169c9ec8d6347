package vmstatus

// ConditionStatus is the status of a condition.
type ConditionStatus string

// The possible statuses.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

// ConditionType is the type of a condition.
type ConditionType string

// The types of conditions that the runner reports.
const (
	// ConditionRunning means that the guest has been started, and QEMU has not ended. It is also true while the
	// VM is being stopped, and while it is paused.
	ConditionRunning ConditionType = "Running"
	// ConditionBooted means that the guest's agent has answered since the last start or reset.
	ConditionBooted ConditionType = "Booted"
	// ConditionReady means that the guest is running, and is not paused or stopped by an error. It is false while
	// the VM is being stopped.
	ConditionReady ConditionType = "Ready"
	// ConditionVmopAgent means that the log-in agent of the guest is connected.
	ConditionVmopAgent ConditionType = "VmopAgentConnected"
	// ConditionUserLoggedIn means that the configured user is logged in.
	ConditionUserLoggedIn ConditionType = "UserLoggedIn"
	// ConditionConsoleConnected means that a viewer of the screen is connected, over SPICE or VNC.
	ConditionConsoleConnected ConditionType = "ConsoleConnected"
	// ConditionConfigApplied means that the newest configuration is active, except for changes that need a
	// restart.
	ConditionConfigApplied ConditionType = "ConfigApplied"
	// ConditionRestartRequired means that changes of the configuration need a restart. In a cluster, the manager
	// reports it, because it knows more changes.
	ConditionRestartRequired ConditionType = "RestartRequired"
	// ConditionTPMLost means that the process that emulates the TPM has ended. The guest continues without it,
	// and cannot be reset.
	ConditionTPMLost ConditionType = "TPMLost"
	// ConditionConfined means that the kernel restricts QEMU and its helpers to the things that they need
	// according to the plan.
	ConditionConfined ConditionType = "Confined"
)

// The types of conditions that the manager reports.
const (
	// ConditionVMTypeAccepted means that the VM type computes a plan for this VM.
	ConditionVMTypeAccepted ConditionType = "VMTypeAccepted"
	// ConditionReconciled means that the cluster matches the definition.
	ConditionReconciled ConditionType = "Reconciled"
	// ConditionMigratable means that the VM can move to another node while it is running.
	ConditionMigratable ConditionType = "Migratable"
	// ConditionSizingMatched means that the VM's class allows the size of the VM.
	ConditionSizingMatched ConditionType = "SizingPolicyMatched"
)
