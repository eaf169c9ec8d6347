package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A VirtualMachineSnapshot is what is on all disks of a VM at one moment, with the runner's data
// (UEFI variables, TPM state, the pinned VM type) and the VM's definition. Its data is in
// VolumeSnapshots, which are deleted with it.
//
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

	// Spec is what is asked for.
	//
	// +required
	Spec VirtualMachineSnapshotSpec `json:"spec,omitzero"`
	// Status is what there is. The manager writes it.
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

// VirtualMachineSnapshotSpec is what is asked for. It can't be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a snapshot can't be changed: make another one"
type VirtualMachineSnapshotSpec struct {
	// VirtualMachineName is the VM, in the same namespace.
	//
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VM in the snapshot's namespace (kubectl get vm)"
	VirtualMachineName string `json:"virtualMachineName"`
	// RequiredConsistency: the snapshot fails if each of the disks would be as after a power
	// cut, at a moment of its own, because the guest agent can't freeze the file systems of a VM
	// that is running.
	//
	// +optional
	// +kubebuilder:default=true
	RequiredConsistency *bool `json:"requiredConsistency,omitempty"`
	// VolumeSnapshotClasses are the classes of the VolumeSnapshots, by the storage class of the
	// disk. Default: that of the disk's CSI driver; of several, the one that is marked as default.
	//
	// +optional
	// +listType=map
	// +listMapKey=storageClassName
	// +kubebuilder:validation:MaxItems=16
	VolumeSnapshotClasses []VolumeSnapshotClassOf `json:"volumeSnapshotClasses,omitempty"`
}

// Consistency reports whether the snapshot has to be consistent.
func (s VirtualMachineSnapshotSpec) Consistency() bool {
	return s.RequiredConsistency == nil || *s.RequiredConsistency
}

// VolumeSnapshotClassOf is the class of the VolumeSnapshots of the volumes of a storage class.
type VolumeSnapshotClassOf struct {
	// StorageClassName is that of the volumes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName"`
	// VolumeSnapshotClassName is that of their VolumeSnapshots.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	VolumeSnapshotClassName string `json:"volumeSnapshotClassName"`
}

// VirtualMachineSnapshotStatus is what there is of a snapshot of a VM.
type VirtualMachineSnapshotStatus struct {
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
	// Consistent: the guest's file systems were frozen, or the VM was off, so that all disks are
	// as at one moment. Otherwise each is as after a power cut, at a moment of its own. Unset:
	// that is not decided yet.
	//
	// +optional
	Consistent *bool `json:"consistent,omitempty"`
	// CreationTime is the moment that the snapshot shows; of several, the latest.
	//
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// Definition is the VM's at that moment.
	//
	// +optional
	Definition *VirtualMachineDefinition `json:"definition,omitempty"`
	// Volumes are those of the VM: the runner's data, its own disks, and the VirtualDisks that it
	// names.
	//
	// +optional
	// +listType=map
	// +listMapKey=volumeSnapshotName
	Volumes []SnapshotVolume `json:"volumes,omitempty"`
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

// VirtualMachineDefinition is what the definition of a VM was.
type VirtualMachineDefinition struct {
	// Labels and Annotations are those that users have given the VM.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
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
	// VolumeSnapshotName is where the data is.
	VolumeSnapshotName string `json:"volumeSnapshotName"`
	// VolumeSnapshotUID is the one of that name: one that is made later is another. Unset: it is
	// not made yet.
	//
	// +optional
	VolumeSnapshotUID types.UID `json:"volumeSnapshotUID,omitempty"`
	// Name of the VM's volume: runner-data, or that of a disk. Unset: it is a VirtualDisk.
	//
	// +optional
	Name string `json:"name,omitempty"`
	// VirtualDiskName is the VirtualDisk. Unset: the volume is the VM's own.
	//
	// +optional
	VirtualDiskName string `json:"virtualDiskName,omitempty"`
	// PersistentVolumeClaimName is the claim of which the VolumeSnapshot was made.
	PersistentVolumeClaimName string `json:"persistentVolumeClaimName"`
	// PersistentVolumeClaimUID is the one of that name.
	//
	// +optional
	PersistentVolumeClaimUID types.UID `json:"persistentVolumeClaimUID,omitempty"`
	// StorageClassName and VolumeMode are those of the claim.
	//
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// +optional
	VolumeMode corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// AccessMode is ReadWriteMany if the claim has that. Unset: it hasn't.
	//
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// RestoreSize is how large a volume must be at least that is made of it.
	//
	// +optional
	RestoreSize string `json:"restoreSize,omitempty"`
	// Ready: volumes can be made of it.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Untrusted says why the files in a volume of the mode Filesystem are not trusted. A volume
	// that is made of the snapshot has it, too.
	//
	// +optional
	Untrusted string `json:"untrusted,omitempty"`
}

// VirtualMachineDataSource is a snapshot in the VM's namespace.
type VirtualMachineDataSource struct {
	// Kind is VirtualMachineSnapshot.
	//
	// +kubebuilder:validation:Enum=VirtualMachineSnapshot
	Kind string `json:"kind"`
	// Name of the snapshot.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=59
	Name string `json:"name"`
}

// KindVMSnapshot is the kind of snapshots of VMs, where one is named as a source.
const KindVMSnapshot = "VirtualMachineSnapshot"
