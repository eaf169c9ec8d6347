package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Migration is the current or latest migration of a guest to another pod. Written by the manager.
//
// ---
// See docs/decisions/0138-migration-in-the-cluster.md.
type Migration struct {
	// Name of the VirtualMachineOperation that requested the migration.
	Operation string `json:"operation"`
	// UID of the VirtualMachineOperation, which identifies the migration.
	OperationUID types.UID `json:"operationUID"`
	// Current stage: Preparing, Moving, Completed or Failed. See message for details.
	Stage MigrationStage `json:"stage"`
	// Human-readable details about the stage.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Pod and node that the guest migrates from.
	Source MigrationPod `json:"source"`
	// Pod and node that the guest migrates to.
	Target MigrationPod `json:"target"`
	// Labels that the target node must have. Unset if any node except the source's may be used.
	//
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// VirtualDisks that are copied during the migration.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Disks []MigrationDisk `json:"disks,omitempty"`
	// Whether a failed migration kept its copies of disks, because they may have been written to.
	//
	// +optional
	CopiesKept bool `json:"copiesKept,omitempty"`
	// Time when the migration started, by the manager's clock.
	StartTime metav1.Time `json:"startTime"`
	// Time when the migration completed or failed.
	//
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Number of bytes of guest memory transferred.
	//
	// +optional
	Transferred int64 `json:"transferred,omitempty"`
	// Progress in percent: the share of the guest's memory, and of the copied disks, that has
	// reached the target.
	//
	// +optional
	Progress int32 `json:"progress,omitempty"`
}

// MigrationDisk is a VirtualDisk that is copied while its VM's guest migrates.
type MigrationDisk struct {
	// Name of the VirtualDisk.
	Name string `json:"name"`
	// PersistentVolumeClaim that the disk uses until the migration completes.
	From DiskTarget `json:"from"`
	// Name of the PersistentVolumeClaim that the disk uses after the migration.
	Claim string `json:"claim"`
}

// MigrationPod is the source or the target pod of a migration.
type MigrationPod struct {
	// Name of the pod.
	Pod string `json:"pod"`
	// UID of the pod. Unset until the pod exists.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Name of the pod's node. Unset until the pod is scheduled.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
}

// MigrationStage is the stage of a migration.
//
// +kubebuilder:validation:Enum=Preparing;Moving;Completed;Failed
type MigrationStage string

// The stages of a migration.
const (
	MigrationPreparing MigrationStage = "Preparing" // the target pod is starting
	MigrationMoving    MigrationStage = "Moving"    // the guest's memory is being transferred
	MigrationCompleted MigrationStage = "Completed" // the guest is running in the target
	MigrationFailed    MigrationStage = "Failed"    // the guest has stayed in the source, see Message
)

// Active reports whether the migration is in progress; it returns false for nil.
func (m *Migration) Active() bool {
	return m != nil && (m.Stage == MigrationPreparing || m.Stage == MigrationMoving)
}

// MigrationFinalizer keeps a deleted VM until a migration that copies its disks has ended.
const MigrationFinalizer = GroupName + "/migration"

// Arriving is the report of a runner that is waiting for the guest of another pod.
type Arriving struct {
	// Name of the runner's pod.
	//
	// +optional
	PodName string `json:"podName,omitempty"`
	// UID of the runner's pod.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Current stage: Waiting, then one of the stages in docs/tasks/migration.md, or Failed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Stage string `json:"stage,omitempty"`
	// Human-readable reason for the failure.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Address at which the manager reaches the runner.
	//
	// +optional
	Control *RunnerControl `json:"control,omitempty"`
}

// MigrateOptions select the target of a migration.
type MigrateOptions struct {
	// Labels that the target node must have, in addition to the VM's own requirements. Defaults to
	// any node except the VM's current one. If set, the current node can also be chosen.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Whether to copy VirtualDisks that can't be used on two nodes because their access mode isn't
	// ReadWriteMany. They are copied to new volumes while the guest is running. Defaults to
	// spec.migration of the VM.
	//
	// +optional
	CopyDisks bool `json:"copyDisks,omitempty"`
}

// MigrationPolicy defines how the guest of a VM migrates to another node, regardless of who
// requests it.
type MigrationPolicy struct {
	// Whether to copy VirtualDisks that can't be used on two nodes because their access mode isn't
	// ReadWriteMany. They are copied to new volumes while the guest is running. Defaults to false:
	// a VM with such disks can migrate only if the operation sets copyDisks.
	//
	// +optional
	CopyDisks bool `json:"copyDisks,omitempty"`
}

// EvictionStrategy is the reaction to an eviction of a VM's pod.
//
// +kubebuilder:validation:Enum=LiveMigrate;LiveMigrateIfPossible;Shutdown
type EvictionStrategy string

// The eviction strategies.
const (
	EvictionLiveMigrate           EvictionStrategy = "LiveMigrate"
	EvictionLiveMigrateIfPossible EvictionStrategy = "LiveMigrateIfPossible"
	EvictionShutdown              EvictionStrategy = "Shutdown"
)
