package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VirtualDiskSnapshot captures the content of a disk at a point in time. Its data is stored in the
// VolumeSnapshot vds-<name>, which is deleted with it.
//
// ---
// See docs/decisions/0116-disk-snapshots.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualdisksnapshots,singular=virtualdisksnapshot,shortName=vdsnapshot
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Consistent",type=boolean,JSONPath=`.status.consistent`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="VirtualDisk",type=string,JSONPath=`.spec.virtualDiskName`,priority=1
// +kubebuilder:printcolumn:name="RestoreSize",type=string,JSONPath=`.status.restoreSize`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 59",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 59 characters: the name of the VolumeSnapshot is made of it"
type VirtualDiskSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Disk to capture.
	//
	// +required
	Spec VirtualDiskSnapshotSpec `json:"spec,omitzero"`
	// Current state of the snapshot. Written by the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the snapshot yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualDiskSnapshotStatus `json:"status,omitzero"`
}

// VirtualDiskSnapshotList is a list of snapshots.
//
// +kubebuilder:object:root=true
type VirtualDiskSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualDiskSnapshot `json:"items"`
}

// VirtualDiskSnapshotSpec names the disk to capture. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a snapshot can't be changed: make another one"
type VirtualDiskSnapshotSpec struct {
	// Name of the VirtualDisk, in the namespace of the snapshot.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualDisk in the snapshot's namespace (kubectl get vd)"
	VirtualDiskName string `json:"virtualDiskName"`
	// Whether the snapshot must be consistent. If true, it fails if a running VM uses the disk and
	// its guest agent can't freeze the file systems. If false, the snapshot can match the disk
	// after a power failure. Defaults to false.
	//
	// +optional
	// +kubebuilder:default=false
	RequiredConsistency bool `json:"requiredConsistency,omitempty"`
	// Name of the VolumeSnapshotClass. Defaults to the class of the disk's CSI driver; if there are
	// several, the class marked as default.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName,omitempty"`
}

// SnapshotPhase is the phase of a snapshot.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Ready;Failed;Terminating
type SnapshotPhase string

// The phases of a snapshot.
const (
	SnapshotPending     SnapshotPhase = "Pending"    // see Reason
	SnapshotInProgress  SnapshotPhase = "InProgress" // being created
	SnapshotReady       SnapshotPhase = "Ready"
	SnapshotFailed      SnapshotPhase = "Failed" // permanently, see Message
	SnapshotTerminating SnapshotPhase = "Terminating"
)

// VirtualDiskSnapshotStatus is the current state of a snapshot.
type VirtualDiskSnapshotStatus struct {
	// Current phase: Pending, InProgress, Ready, Failed or Terminating. See reason and message for
	// details.
	//
	// +optional
	Phase SnapshotPhase `json:"phase,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Whether the snapshot is consistent: the guest's file systems were frozen, or no VM used the
	// disk. If false, it matches the disk after a power failure. Unset until this is known.
	//
	// +optional
	Consistent *bool `json:"consistent,omitempty"`
	// Name of the VolumeSnapshot with the data.
	//
	// +optional
	VolumeSnapshotName string `json:"volumeSnapshotName,omitempty"`
	// UID of the VolumeSnapshot. A VolumeSnapshot created later with the same name has another UID
	// and is not used.
	//
	// +optional
	VolumeSnapshotUID types.UID `json:"volumeSnapshotUID,omitempty"`
	// Minimum size of a disk created from the snapshot.
	//
	// +optional
	RestoreSize string `json:"restoreSize,omitempty"`
	// Point in time that the snapshot captures.
	//
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// Reason why the files in a volume of the mode Filesystem are not trusted, copied from the
	// disk. Disks created from the snapshot inherit it. Empty if they are trusted.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions of the snapshot: Ready and Consistent.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Generation of the resource that this status reflects.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// The conditions of a snapshot.
const (
	SnapshotConditionReady      = "Ready"      // disks can be created from it
	SnapshotConditionConsistent = "Consistent" // writes were frozen when it was taken
)
