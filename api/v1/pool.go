package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VmPool assigns VMs to users. A user who may start VMs of the pool gets a free VM, and gets the
// same VM again until it is assigned to another user. VMs join a pool with their spec.pools, or are
// created from the pool's template. The status of a VM shows its user.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=vmpools,singular=vmpool
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.vms`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.free`
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="In use",type=integer,JSONPath=`.status.inUse`
// +kubebuilder:printcolumn:name="Retention",type=string,JSONPath=`.spec.retention`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Retained",type=integer,JSONPath=`.status.retained`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -) of at most 40 characters: the names of VMs are made of it"
type VmPool struct { //nolint:revive // the name of the kind, which is VM-Operator's
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Users of the pool, and how long they keep their VMs.
	//
	// +required
	Spec VmPoolSpec `json:"spec,omitzero"`
	// Numbers of VMs. Written by the manager.
	//
	// +optional
	Status VmPoolStatus `json:"status,omitzero"`
}

// VmPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type VmPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VmPool `json:"items"`
}

// VmPoolSpec defines the users of a pool and how long they keep their VMs.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) || !has(self.replicas)",fieldPath=".replicas",message="VMs can't be made without a template: add template, or leave replicas out"
// +kubebuilder:validation:XValidation:rule="has(self.template) || !has(self.recreate) || self.recreate == 'Never'",fieldPath=".recreate",message="VMs can't be made anew without a template: add template, or leave recreate out"
type VmPoolSpec struct {
	// How long a VM is kept for its user after the last use: a duration such as PT1h, P1D or P2W
	// (ISO 8601: weeks, days, hours, minutes, seconds). Alternatively, the time until which all VMs
	// are kept, such as 2026-12-24T18:00:00Z. Defaults to PT1h.
	//
	// +optional
	// +kubebuilder:default=PT1h
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^P([0-9]{1,4}[Ww])?([0-9]{1,5}[Dd])?(T([0-9]{1,6}[Hh])?([0-9]{1,8}[Mm])?([0-9]{1,9}([.,][0-9]{1,9})?[Ss])?)?$') && !self.endsWith('T') && self != 'P' || self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?([Zz]|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$')",message="must be a duration such as PT1h, PT30M or P2W (weeks, days, hours, minutes, seconds; months and years have no fixed length), or a time with its zone such as 2026-12-24T18:00:00Z"
	Retention string `json:"retention,omitempty"`
	// Action when the retention of a VM ends. Keep: the user keeps it until another user gets it.
	// Release: it becomes free. Stop: it becomes free and is shut down, unless it is needed for
	// started. Defaults to Keep.
	//
	// +optional
	// +kubebuilder:default=Keep
	AfterRetention AfterRetention `json:"afterRetention,omitempty"`
	// Number of free VMs that are kept running for the next users, 0 to 1000. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Started int32 `json:"started,omitempty"`
	// Whether the log-in agent in the guest logs in the user that the VM is assigned to. Defaults
	// to false.
	//
	// +optional
	LoginOnAssignment bool `json:"loginOnAssignment,omitempty"`
	// Users and roles that get VMs of the pool, and their permissions. Permissions are cumulative.
	// Users with takeConsole see all assigned VMs of the pool.
	//
	// +kubebuilder:validation:MaxItems=256
	Permissions []PoolPermission `json:"permissions"`
	// Template that the pool creates VMs from. Without a template the pool creates no VMs.
	//
	// +optional
	Template *VmPoolTemplate `json:"template,omitempty"`
	// Number of VMs that are created from the template, 0 to 1000. If there are too many, free VMs
	// are deleted. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// When to replace a VM that was created from the template. Never: the next user finds the data
	// of the previous user. OnRelease: the VM and all its disks are deleted when its user no longer
	// keeps it. Defaults to Never.
	//
	// +optional
	// +kubebuilder:default=Never
	Recreate Recreate `json:"recreate,omitempty"`
}

// AfterRetention is the action when the retention of a VM ends.
//
// +kubebuilder:validation:Enum=Keep;Release;Stop
type AfterRetention string

// The actions when the retention of a VM ends.
const (
	KeepAssigned AfterRetention = "Keep"
	ReleaseVM    AfterRetention = "Release"
	StopVM       AfterRetention = "Stop"
)

// Recreate defines when a pool replaces a VM.
//
// +kubebuilder:validation:Enum=Never;OnRelease
type Recreate string

// When a VM of a pool is replaced.
const (
	RecreateNever     Recreate = "Never"
	RecreateOnRelease Recreate = "OnRelease"
)

// PoolPermission defines what a user, or all users with a role, may do with a VM assigned to them.
//
// +kubebuilder:validation:XValidation:rule="has(self.user) != has(self.role)",message="set either user or role"
type PoolPermission struct {
	// Name of a user. Set either user or role.
	//
	// +optional
	User string `json:"user,omitempty"`
	// Name of a role. Set either user or role.
	//
	// +optional
	Role string `json:"role,omitempty"`
	// Allowed actions: start, stop, reset, accessConsole, takeConsole or *. start includes getting
	// a VM. Defaults to accessConsole.
	//
	// +kubebuilder:default={accessConsole}
	// +kubebuilder:validation:MaxItems=16
	May []PoolAction `json:"may,omitempty"`
}

// PoolAction is an action that a user may perform with a VM of a pool. start: get a VM and start
// it. stop, reset: stop or reset it. accessConsole: see and use its screen and console.
// takeConsole: do so even when another user has the VM. *: all actions.
//
// +kubebuilder:validation:Enum=start;stop;reset;accessConsole;takeConsole;"*"
type PoolAction string

// VmPoolTemplate is the template of a pool's VMs.
type VmPoolTemplate struct {
	// Metadata of the VMs.
	//
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// Definition of the VMs. The pool adds itself to their pools.
	Spec VirtualMachineSpec `json:"spec"`
	// VirtualDisks that are created for each VM and deleted with it. They follow the VM's other
	// disks. Each is named after the VM and the disk: <vm>-<disk>.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Disks []DiskTemplate `json:"disks,omitempty"`
}

// TemplateMetadata is the metadata of VMs created from a template.
type TemplateMetadata struct {
	// Labels of the VMs.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the VMs.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DiskTemplate is the template of a disk for each VM.
type DiskTemplate struct {
	// Name of the disk within the VM.
	//
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a name such as system: a-z, 0-9 and -"
	Name string `json:"name"`
	// Definition of the disk. Its dataSource can be another VirtualDisk, an image or a snapshot.
	Spec VirtualDiskSpec `json:"spec"`
}

// VmPoolStatus contains the numbers of VMs of a pool.
type VmPoolStatus struct {
	// Number of VMs in the pool.
	//
	// +optional
	VMs int32 `json:"vms"`
	// Number of VMs available for the next users.
	//
	// +optional
	Free int32 `json:"free"`
	// Number of VMs assigned to users.
	//
	// +optional
	Assigned int32 `json:"assigned"`
	// Number of assigned VMs that are not in use but kept for their users.
	//
	// +optional
	Retained int32 `json:"retained"`
	// Number of assigned VMs with a connected viewer.
	//
	// +optional
	InUse int32 `json:"inUse"`
	// Number of VMs created from the template so far, which is also the number of the last VM.
	//
	// +optional
	Made int32 `json:"made,omitempty"`
	// Generation of the resource that this status reflects.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Human-readable description of problems with the pool. Empty if there are none.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// LabelPool of a VM is the name of the pool that created it.
const LabelPool = GroupName + "/pool"
