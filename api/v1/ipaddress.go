package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A VirtualMachineIPAddress reserves an IP address for VMs of its namespace. The manager
// makes one for each VM that gets an address and names none; others are made by users, and
// named by a VM's virtualMachineIPAddressName.
//
// It has no status subresource, so that one write makes the whole object; an admission
// policy keeps the status for who has the right for virtualmachineipaddresses/status, as the
// manager has. See docs/decisions/0096-lease-names.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=virtualmachineipaddresses,singular=virtualmachineipaddress,shortName=vmip
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.status.virtualMachine`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",fieldPath=".metadata",message="metadata.name must have at most 63 characters"
type VirtualMachineIPAddress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is asked for. It can't be changed.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an address can't be changed: make another VirtualMachineIPAddress, and name it in spec.virtualMachineIPAddressName of the VM"
	Spec VirtualMachineIPAddressSpec `json:"spec,omitzero"`
	// Status is which address it is. The manager writes it.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen it yet: check that one is running in its namespace, and has virtualMachineCIDRs"}
	Status VirtualMachineIPAddressStatus `json:"status,omitzero"`
}

// VirtualMachineIPAddressList is a list of addresses.
//
// +kubebuilder:object:root=true
type VirtualMachineIPAddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineIPAddress `json:"items"`
}

// IPAddressType says how an address is chosen.
//
// +kubebuilder:validation:Enum=Auto;Static
type IPAddressType string

// The types of addresses.
const (
	IPAddressAuto   IPAddressType = "Auto"   // any that is free
	IPAddressStatic IPAddressType = "Static" // the one that is named
)

// VirtualMachineIPAddressSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'Static') == has(self.staticIP)",fieldPath=".staticIP",message="type Static needs staticIP, such as 10.66.20.77; type Auto has none"
type VirtualMachineIPAddressSpec struct {
	// Type is Auto, any free address, or Static, that of staticIP.
	//
	// +kubebuilder:default=Auto
	Type IPAddressType `json:"type,omitempty"`
	// StaticIP is an IPv4 address of the ranges in the manager's configuration
	// (virtualMachineCIDRs).
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4 && string(ip(self)) == self",message="want an IPv4 address, such as 10.66.20.77"
	StaticIP string `json:"staticIP,omitempty"`
}

// IPAddressPhase is the state of an address in one word.
//
// +kubebuilder:validation:Enum=Pending;Bound;Attached
type IPAddressPhase string

// The phases of an address.
const (
	IPAddressPending  IPAddressPhase = "Pending"  // it has no lease: Reason says why
	IPAddressBound    IPAddressPhase = "Bound"    // it is leased, and no VM has it
	IPAddressAttached IPAddressPhase = "Attached" // a VM has it
)

// VirtualMachineIPAddressStatus is which address it is, and who has it.
type VirtualMachineIPAddressStatus struct {
	// Phase is the state in one word: Pending, Bound or Attached. Reason and Message say
	// why it is Pending, or what is to be known about the address.
	//
	// +optional
	Phase IPAddressPhase `json:"phase,omitempty"`
	// Address is the one that is leased.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
	// VirtualMachine is the VM that has it.
	//
	// +optional
	VirtualMachine string `json:"virtualMachine,omitempty"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// A VirtualMachineIPAddressLease is the lease of an address in the whole cluster. Its name is
// made of the address (ip-10-66-10-14), so that no two can have the same. Managers write it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=virtualmachineipaddressleases,singular=virtualmachineipaddresslease,shortName=vmipl
// +kubebuilder:printcolumn:name="VirtualMachineIPAddress",type=string,JSONPath=`.spec.virtualMachineIPAddressRef`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^ip(-[0-9]{1,3}){4}$') && isIP(self.metadata.name.substring(3).replace('-', '.'))",fieldPath=".metadata",message="metadata.name must be ip- and an IPv4 address with - in place of the dots, such as ip-10-66-10-14"
type VirtualMachineIPAddressLease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says whose lease it is.
	//
	// +required
	Spec VirtualMachineIPAddressLeaseSpec `json:"spec,omitzero"`
	// Status is the state of the lease.
	//
	// +optional
	// +kubebuilder:default={phase: Bound}
	Status VirtualMachineIPAddressLeaseStatus `json:"status,omitzero"`
}

// VirtualMachineIPAddressLeaseList is a list of leases.
//
// +kubebuilder:object:root=true
type VirtualMachineIPAddressLeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineIPAddressLease `json:"items"`
}

// VirtualMachineIPAddressLeaseSpec says whose a lease is.
type VirtualMachineIPAddressLeaseSpec struct {
	// VirtualMachineIPAddressRef is the address object that has, or last had, the lease.
	VirtualMachineIPAddressRef IPAddressRef `json:"virtualMachineIPAddressRef"`
}

// IPAddressRef names a VirtualMachineIPAddress.
//
// +kubebuilder:validation:XValidation:rule="self.__namespace__ == oldSelf.__namespace__",fieldPath=".namespace",message="a lease stays in its namespace: it can be made for another one when it is gone"
type IPAddressRef struct {
	// Name of the address object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the address object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// LeasePhase is the state of a lease in one word.
//
// +kubebuilder:validation:Enum=Bound;Released
type LeasePhase string

// The phases of a lease.
const (
	LeaseBound    LeasePhase = "Bound"    // the address object has it
	LeaseReleased LeasePhase = "Released" // kept for the namespace, for some time
)

// VirtualMachineIPAddressLeaseStatus is the state of a lease.
type VirtualMachineIPAddressLeaseStatus struct {
	// Phase is the state in one word: Bound or Released.
	//
	// +optional
	Phase LeasePhase `json:"phase,omitempty"`
	// VirtualMachine is the VM that has the address. Until its pod is gone the lease is
	// neither released nor given to another VM.
	//
	// +optional
	VirtualMachine string `json:"virtualMachine,omitempty"`
	// ReleaseTime is when the lease was released, by the clock of the manager.
	//
	// +optional
	ReleaseTime *metav1.Time `json:"releaseTime,omitempty"`
}

// FirstTap returns which network is the first tap, whose address the VM's is; -1 if none is.
func (m *VM) FirstTap() int {
	return slices.IndexFunc(m.Networks, func(n Network) bool { return n.Tap != nil })
}
