package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// VirtualMachineSnapshot captures all disks of a VM at a point in time, with the runner's data
// (UEFI variables, TPM state, the pinned VM type) and the VM's definition. Its data is stored in
// VolumeSnapshots, which are deleted with it.
//
// ---
// See docs/decisions/0127-vm-snapshots.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinesnapshots,singular=virtualmachinesnapshot,shortName=vmsnapshot
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Consistent",type=boolean,JSONPath=`.status.consistent`
// +kubebuilder:printcolumn:name="VirtualMachine",type=string,JSONPath=`.spec.virtualMachineName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Moment",type=date,JSONPath=`.status.creationTime`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 59",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 59 characters: the names of the VolumeSnapshots are made of it"
type VirtualMachineSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// VM to capture.
	//
	// +required
	Spec VirtualMachineSnapshotSpec `json:"spec,omitzero"`
	// Current state of the snapshot. Written by the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the snapshot yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualMachineSnapshotStatus `json:"status,omitzero"`
}

// VirtualMachineSnapshotList is a list of snapshots of VMs.
//
// +kubebuilder:object:root=true
type VirtualMachineSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineSnapshot `json:"items"`
}

// VirtualMachineSnapshotSpec names the VM to capture. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a snapshot can't be changed: make another one"
type VirtualMachineSnapshotSpec struct {
	// Name of the VM, in the namespace of the snapshot.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VM in the snapshot's namespace (kubectl get vm)"
	VirtualMachineName string `json:"virtualMachineName"`
	// Whether the snapshot must be consistent. If true, it fails if the VM is running and its guest
	// agent can't freeze the file systems. If false, each disk can be captured at a different
	// moment, in its state after a power failure. Defaults to true.
	//
	// +optional
	// +kubebuilder:default=true
	RequiredConsistency *bool `json:"requiredConsistency,omitempty"`
	// VolumeSnapshotClasses, by the storage class of the disk. Defaults to the class of the disk's
	// CSI driver; if there are several, the class marked as default.
	//
	// +optional
	// +listType=map
	// +listMapKey=storageClassName
	// +kubebuilder:validation:MaxItems=16
	VolumeSnapshotClasses []VolumeSnapshotClassOf `json:"volumeSnapshotClasses,omitempty"`
}

// Consistency reports whether the snapshot must be consistent.
func (s VirtualMachineSnapshotSpec) Consistency() bool {
	return s.RequiredConsistency == nil || *s.RequiredConsistency
}

// VolumeSnapshotClassOf is the VolumeSnapshotClass for the volumes of a storage class.
type VolumeSnapshotClassOf struct {
	// Name of the storage class of the volumes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName"`
	// Name of the VolumeSnapshotClass for these volumes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName"`
}

// VirtualMachineSnapshotStatus is the current state of a VM's snapshot.
type VirtualMachineSnapshotStatus struct {
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
	// Whether the snapshot is consistent: the guest's file systems were frozen, or the VM was off,
	// so that all disks show the same moment. If false, each disk shows its own moment, in its
	// state after a power failure. Unset until this is known.
	//
	// +optional
	Consistent *bool `json:"consistent,omitempty"`
	// Point in time that the snapshot captures; if there are several, the latest.
	//
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// Definition of the VM at that time.
	//
	// +optional
	Definition *VirtualMachineDefinition `json:"definition,omitempty"`
	// Volumes of the VM: the runner's data, its own disks, and the VirtualDisks that it uses.
	//
	// +optional
	// +listType=map
	// +listMapKey=volumeSnapshotName
	Volumes []SnapshotVolume `json:"volumes,omitempty"`
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

// VirtualMachineDefinition is the definition of a VM at the time of a snapshot.
type VirtualMachineDefinition struct {
	// Labels that users set on the VM.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations that users set on the VM.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// UID of the VM.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Spec of the VM. All users who can read the snapshot can read it.
	//
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitzero"`
}

// SnapshotVolume is a volume of a VM, and its VolumeSnapshot.
type SnapshotVolume struct {
	// Name of the VolumeSnapshot with the data.
	VolumeSnapshotName string `json:"volumeSnapshotName"`
	// UID of the VolumeSnapshot. A VolumeSnapshot created later with the same name has another UID
	// and is not used. Unset until the VolumeSnapshot exists.
	//
	// +optional
	VolumeSnapshotUID types.UID `json:"volumeSnapshotUID,omitempty"`
	// Name of the VM's own volume: runner-data, or the name of a disk. Unset for a VirtualDisk.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// Name of the VirtualDisk. Unset for the VM's own volumes.
	//
	// +optional
	VirtualDiskName string `json:"virtualDiskName,omitempty"`
	// Name of the PersistentVolumeClaim that the VolumeSnapshot was created from.
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName"`
	// UID of the PersistentVolumeClaim.
	//
	// +optional
	PersistentVolumeClaimUID types.UID `json:"persistentVolumeClaimUID,omitempty"`
	// Storage class of the PersistentVolumeClaim.
	//
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// Volume mode of the PersistentVolumeClaim: Block or Filesystem.
	//
	// +optional
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// Access mode of the PersistentVolumeClaim: ReadWriteMany. Unset for other modes.
	//
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// Minimum size of a volume created from the snapshot.
	//
	// +optional
	RestoreSize string `json:"restoreSize,omitempty"`
	// Whether volumes can be created from the snapshot.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Reason why the files in a volume of the mode Filesystem are not trusted. Volumes created from
	// the snapshot inherit it. Empty if they are trusted.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
}

// VirtualMachineDataSource names a snapshot in the VM's namespace.
type VirtualMachineDataSource struct {
	// Kind of the source: VirtualMachineSnapshot.
	//
	// +kubebuilder:validation:Enum=VirtualMachineSnapshot
	Kind string `json:"kind"`
	// Name of the snapshot.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=59
	Name string `json:"name"`
}

// KindVMSnapshot is the kind of VM snapshots where they are named as a source.
const KindVMSnapshot = "VirtualMachineSnapshot"
