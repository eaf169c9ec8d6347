package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A VirtualDiskSnapshot is what is on a disk at one moment. Its data is in the VolumeSnapshot
// vds-<name>, which is deleted with it.
//
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

	// Spec is what is asked for.
	//
	// +required
	Spec VirtualDiskSnapshotSpec `json:"spec,omitzero"`
	// Status is what there is. The manager writes it.
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

// VirtualDiskSnapshotSpec is what is asked for. It can't be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a snapshot can't be changed: make another one"
type VirtualDiskSnapshotSpec struct {
	// VirtualDiskName is the disk, in the same namespace.
	//
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualDisk in the snapshot's namespace (kubectl get vd)"
	VirtualDiskName string `json:"virtualDiskName"`
	// RequiredConsistency: the snapshot fails if it would be as the disk is after a power cut,
	// because a VM is running whose guest agent can't freeze the file systems.
	//
	// +optional
	// +kubebuilder:default=false
	RequiredConsistency bool `json:"requiredConsistency,omitempty"`
	// VolumeSnapshotClassName is the class of the VolumeSnapshot. Default: that of the disk's
	// CSI driver; of several, the one that is marked as default.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName,omitempty"`
}

// SnapshotPhase is the state of a snapshot in one word.
//
// +kubebuilder:validation:Enum=Pending;InProgress;Ready;Failed;Terminating
type SnapshotPhase string

// The phases of a snapshot.
const (
	SnapshotPending     SnapshotPhase = "Pending"    // Reason says what it waits for
	SnapshotInProgress  SnapshotPhase = "InProgress" // it is made
	SnapshotReady       SnapshotPhase = "Ready"
	SnapshotFailed      SnapshotPhase = "Failed" // for good; Message says why
	SnapshotTerminating SnapshotPhase = "Terminating"
)

// VirtualDiskSnapshotStatus is what there is of a snapshot.
type VirtualDiskSnapshotStatus struct {
	// Phase is the state in one word; Reason and Message say more.
	//
	// +optional
	Phase SnapshotPhase `json:"phase,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Consistent: the guest's file systems were frozen, or no VM had the disk. Otherwise the
	// snapshot is as the disk is after a power cut. Unset: that is not decided yet.
	//
	// +optional
	Consistent *bool `json:"consistent,omitempty"`
	// VolumeSnapshotName is where the data is.
	//
	// +optional
	VolumeSnapshotName string `json:"volumeSnapshotName,omitempty"`
	// VolumeSnapshotUID is the one of that name: one that is made later is another.
	//
	// +optional
	VolumeSnapshotUID types.UID `json:"volumeSnapshotUID,omitempty"`
	// RestoreSize is how large a disk must be at least that is made of it.
	//
	// +optional
	RestoreSize string `json:"restoreSize,omitempty"`
	// CreationTime is the moment that the snapshot shows.
	//
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// Untrusted says why the files in a volume of the mode Filesystem are not trusted, as of the
	// disk. A disk that is made of the snapshot has it, too.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
	// Conditions are Ready and Consistent.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// The conditions of a snapshot.
const (
	SnapshotConditionReady      = "Ready"      // disks can be made of it
	SnapshotConditionConsistent = "Consistent" // nothing could be written at the moment that it shows
)
