package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A VmPool gives VMs to users: whoever may start a VM of the pool gets one that is free, and the same one
// again until it is given to another user. VMs are members by their spec.pools, or are made of the
// pool's template. The status of a VM says which user has it.
//
// See docs/decisions/0146-pools.md.
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

	// Spec says who gets VMs, and for how long.
	//
	// +required
	Spec VmPoolSpec `json:"spec,omitzero"`
	// Status counts the VMs. The manager writes it.
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

// VmPoolSpec says who gets VMs of a pool, and for how long.
//
// +kubebuilder:validation:XValidation:rule="has(self.template) || !has(self.replicas)",fieldPath=".replicas",message="VMs can't be made without a template: add template, or leave replicas out"
// +kubebuilder:validation:XValidation:rule="has(self.template) || !has(self.recreate) || self.recreate == 'Never'",fieldPath=".recreate",message="VMs can't be made anew without a template: add template, or leave recreate out"
type VmPoolSpec struct {
	// Retention is for how long a VM is kept for its user after the last use: a duration such as
	// PT1h, P1D or P2W (ISO 8601: weeks, days, hours, minutes, seconds), or the time until when all VMs are
	// kept, such as 2026-12-24T18:00:00Z. Default: PT1h.
	//
	// +optional
	// +kubebuilder:default=PT1h
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^P([0-9]{1,4}[Ww])?([0-9]{1,5}[Dd])?(T([0-9]{1,6}[Hh])?([0-9]{1,8}[Mm])?([0-9]{1,9}([.,][0-9]{1,9})?[Ss])?)?$') && !self.endsWith('T') && self != 'P' || self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?([Zz]|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$')",message="want a duration such as PT1h, PT30M or P2W (weeks, days, hours, minutes, seconds; months and years have no fixed length), or a time with its zone such as 2026-12-24T18:00:00Z"
	Retention string `json:"retention,omitempty"`
	// AfterRetention is what is done with a VM that is no longer kept for its user. Keep: it stays theirs
	// until another user gets it. Release: it is free. Stop: it is free, and shut down, unless it is one of
	// those that are kept started. Default: Keep.
	//
	// +optional
	// +kubebuilder:default=Keep
	AfterRetention AfterRetention `json:"afterRetention,omitempty"`
	// Started is how many free VMs are kept started for the next users. Default: 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Started int32 `json:"started,omitempty"`
	// LoginOnAssignment has the log-in agent in the guest log in the user to whom a VM is assigned.
	// Default: false.
	//
	// +optional
	LoginOnAssignment bool `json:"loginOnAssignment,omitempty"`
	// Permissions say who gets a VM of the pool, and what they may do with it. They add up. Users who
	// may take over consoles (takeConsole) see all VMs of the pool that are assigned.
	//
	// +kubebuilder:validation:MaxItems=256
	Permissions []PoolPermission `json:"permissions"`
	// Template is what the pool makes VMs of. Default: it makes none.
	//
	// +optional
	Template *VmPoolTemplate `json:"template,omitempty"`
	// Replicas is how many VMs are made of the template. Of those that are too many, free ones are
	// deleted. Default: 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`
	// Recreate says when a VM that was made of the template is replaced by a new one. Never: the next
	// user finds what the last one has left. OnRelease: it is deleted, with all of its disks, when it is no
	// longer its user's. Default: Never.
	//
	// +optional
	// +kubebuilder:default=Never
	Recreate Recreate `json:"recreate,omitempty"`
}

// AfterRetention is what is done with a VM that is no longer kept for its user.
//
// +kubebuilder:validation:Enum=Keep;Release;Stop
type AfterRetention string

// What is done with a VM that is no longer kept for its user.
const (
	KeepAssigned AfterRetention = "Keep"
	ReleaseVM    AfterRetention = "Release"
	StopVM       AfterRetention = "Stop"
)

// Recreate says when a VM of a pool is replaced by a new one.
//
// +kubebuilder:validation:Enum=Never;OnRelease
type Recreate string

// When a VM of a pool is replaced.
const (
	RecreateNever     Recreate = "Never"
	RecreateOnRelease Recreate = "OnRelease"
)

// PoolPermission is what a user, or all users with a role, may do with a VM of a pool that they have.
//
// +kubebuilder:validation:XValidation:rule="has(self.user) != has(self.role)",message="want either user or role"
type PoolPermission struct {
	// User is a user's name.
	//
	// +optional
	User string `json:"user,omitempty"`
	// Role is the name of a role.
	//
	// +optional
	Role string `json:"role,omitempty"`
	// May lists what is allowed; start includes to get a VM. Default: accessConsole.
	//
	// +kubebuilder:default={accessConsole}
	// +kubebuilder:validation:MaxItems=16
	May []PoolAction `json:"may,omitempty"`
}

// PoolAction is what a user may do with a VM of a pool: get one and start it (start), stop or reset it, see
// and use its screen and console (accessConsole), also those of other users (takeConsole); or all of
// that (*).
//
// +kubebuilder:validation:Enum=start;stop;reset;accessConsole;takeConsole;"*"
type PoolAction string

// VmPoolTemplate is what VMs of a pool are made of.
type VmPoolTemplate struct {
	// Metadata of the VMs.
	//
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitzero"`
	// Spec is the definition of the VMs; the pool adds itself to their pools.
	Spec VirtualMachineSpec `json:"spec"`
	// Disks are VirtualDisks that are made for each VM, and deleted with it; they come after the others of
	// the VM. Their names are those of the VM and the disk, with a - between them.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Disks []DiskTemplate `json:"disks,omitempty"`
}

// TemplateMetadata is metadata of VMs that are made.
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

// DiskTemplate is what a disk of each VM is made of.
type DiskTemplate struct {
	// Name of the disk in the VM.
	//
	// +kubebuilder:validation:MaxLength=14
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want a name such as system: a-z, 0-9 and -"
	Name string `json:"name"`
	// Spec is the definition of the disk; its dataSource may be another VirtualDisk, an image or a snapshot.
	Spec VirtualDiskSpec `json:"spec"`
}

// VmPoolStatus is what has become of a pool.
type VmPoolStatus struct {
	// VMs is how many the pool has, of which Free can be given away now, and Assigned are some user's: InUse
	// of them are being used, Retained are kept for their users, who don't use them now.
	//
	// +optional
	VMs int32 `json:"vms"`
	// Free VMs can be given to the next user.
	//
	// +optional
	Free int32 `json:"free"`
	// Assigned VMs are those that some user has.
	//
	// +optional
	Assigned int32 `json:"assigned"`
	// Retained VMs are assigned, not in use, and kept for their users.
	//
	// +optional
	Retained int32 `json:"retained"`
	// InUse VMs have a viewer.
	//
	// +optional
	InUse int32 `json:"inUse"`
	// Made is how many VMs have been made of the template ever: the last one's number.
	//
	// +optional
	Made int32 `json:"made,omitempty"`
	// ObservedGeneration is that of the spec that was last acted on.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Message says what is not as it should be, for people; empty if all is.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// LabelPool of a VM is the name of the pool that has made it.
const LabelPool = GroupName + "/pool"
