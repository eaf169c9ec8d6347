package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Migration is a move of the guest to another pod, the one that is going on or the last one. Only the
// manager writes it.
//
// See docs/decisions/0138-migration-in-the-cluster.md.
type Migration struct {
	// Operation is the name of the VirtualMachineOperation that has asked for it.
	Operation string `json:"operation"`
	// OperationUID is that operation's uid, and the name of the migration.
	OperationUID types.UID `json:"operationUID"`
	// Stage is how far it is.
	Stage MigrationStage `json:"stage"`
	// Message about the stage, for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Source is where the guest has been when it began.
	Source MigrationPod `json:"source"`
	// Target is where it is to be.
	Target MigrationPod `json:"target"`
	// NodeSelector are the labels of the nodes that can be chosen. Absent: each but the source's.
	//
	// +optional
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Disks are the VirtualDisks that are copied while the guest moves.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Disks []MigrationDisk `json:"disks,omitempty"`
	// CopiesKept says that the migration has failed and that the copies of disks stay, since it isn't certain that
	// nothing was written to them.
	//
	// +optional
	CopiesKept bool `json:"copiesKept,omitempty"`
	// StartTime is when it began, by the manager's clock.
	StartTime metav1.Time `json:"startTime"`
	// EndTime is when it ended, however that was.
	//
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Transferred is how many bytes of the guest's memory were sent.
	//
	// +optional
	Transferred int64 `json:"transferred,omitempty"`
	// Progress is how much of the guest's memory, and of the disks that are copied, the target has, in percent.
	//
	// +optional
	Progress int32 `json:"progress,omitempty"`
}

// MigrationDisk is a VirtualDisk that is copied while the guest of its VM moves.
type MigrationDisk struct {
	// Name of the VirtualDisk.
	Name string `json:"name"`
	// From is the claim that it had when the migration began, and has while it isn't completed.
	From DiskTarget `json:"from"`
	// Claim is the name of the one that it gets.
	Claim string `json:"claim"`
}

// MigrationPod is a pod from which or to which a guest moves.
type MigrationPod struct {
	// Pod is its name.
	Pod string `json:"pod"`
	// PodUID is its uid. Absent: there is none yet.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// NodeName is the node of the pod. Absent: none was chosen yet.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
}

// MigrationStage is how far a migration is.
//
// +kubebuilder:validation:Enum=Preparing;Moving;Completed;Failed
type MigrationStage string

// The stages of a migration.
const (
	MigrationPreparing MigrationStage = "Preparing" // the pod is started to which the guest is to move
	MigrationMoving    MigrationStage = "Moving"    // the guest's memory is sent
	MigrationCompleted MigrationStage = "Completed" // the guest is in the target
	MigrationFailed    MigrationStage = "Failed"    // it has stayed in the source: Message says why
)

// Active reports whether the migration, nil for none, is going on.
func (m *Migration) Active() bool {
	return m != nil && (m.Stage == MigrationPreparing || m.Stage == MigrationMoving)
}

// MigrationFinalizer keeps a VM that is deleted until a migration that copies its disks is over.
const MigrationFinalizer = GroupName + "/migration"

// Arriving is what the runner reports of itself that waits for the guest of another pod, until it has
// got it.
type Arriving struct {
	// PodName of the runner.
	//
	// +optional
	PodName string `json:"podName,omitempty"`
	// PodUID is that pod's uid.
	//
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Stage is how far it is: one of docs/migration.md, Waiting before that, or Failed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Stage string `json:"stage,omitempty"`
	// Message says why it has failed.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Control is where the manager reaches the runner.
	//
	// +optional
	Control *RunnerControl `json:"control,omitempty"`
}

// MigrateOptions say to where a guest moves.
type MigrateOptions struct {
	// NodeSelector are the labels of the nodes that can be chosen, beside what the VM itself
	// requires. Absent: each but that of the VM. With one, the VM's own node can be chosen, too.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// CopyDisks has the VirtualDisks copied that other nodes can't have at the same time, as their access mode isn't
	// ReadWriteMany: into new volumes, while the guest runs. Absent: as spec.migration of the VM says.
	//
	// +optional
	CopyDisks bool `json:"copyDisks,omitempty"`
}

// MigrationPolicy says how the guest of a VM moves to another node, whoever asks for it.
type MigrationPolicy struct {
	// CopyDisks has the VirtualDisks copied that other nodes can't have at the same time, as their access mode isn't
	// ReadWriteMany: into new volumes, while the guest runs. Absent: a VM with such disks doesn't leave its node,
	// unless an operation has them copied.
	//
	// +optional
	CopyDisks bool `json:"copyDisks,omitempty"`
}

// EvictionStrategy is what becomes of a VM whose pod is to be evicted.
//
// +kubebuilder:validation:Enum=LiveMigrate;LiveMigrateIfPossible;Shutdown
type EvictionStrategy string

// The strategies.
const (
	EvictionLiveMigrate           EvictionStrategy = "LiveMigrate"
	EvictionLiveMigrateIfPossible EvictionStrategy = "LiveMigrateIfPossible"
	EvictionShutdown              EvictionStrategy = "Shutdown"
)
