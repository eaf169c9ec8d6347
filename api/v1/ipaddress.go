package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualMachineIPAddress reserves an IP address for VMs of its namespace. The manager creates one
// for each VM that gets an address without naming one. Users can create others and name them in the
// VM's virtualMachineIPAddressName.
//
// ---
// It has no status subresource, so that one write creates the whole object. An admission policy
// reserves the status for users with permission for virtualmachineipaddresses/status, such as the
// manager. See docs/decisions/0096-lease-names.md.
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

	// Requested address. It is immutable.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an address can't be changed: make another VirtualMachineIPAddress, and name it in spec.virtualMachineIPAddressName of the VM"
	Spec VirtualMachineIPAddressSpec `json:"spec,omitzero"`
	// Reserved address and its VM. Written by the manager.
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

// IPAddressType defines how an address is selected.
//
// +kubebuilder:validation:Enum=Auto;Static
type IPAddressType string

// The types of addresses.
const (
	IPAddressAuto   IPAddressType = "Auto"   // any that is free
	IPAddressStatic IPAddressType = "Static" // the one that is named
)

// VirtualMachineIPAddressSpec is the requested address.
//
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'Static') == has(self.staticIP)",fieldPath=".staticIP",message="type Static needs staticIP, such as 10.66.20.77; type Auto has none"
type VirtualMachineIPAddressSpec struct {
	// How the address is selected. Auto: any free address. Static: the address in staticIP.
	// Defaults to Auto.
	//
	// +kubebuilder:default=Auto
	Type IPAddressType `json:"type,omitempty"`
	// IPv4 address within the ranges of virtualMachineCIDRs in the manager's configuration.
	// Required for the type Static.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4 && string(ip(self)) == self",message="must be an IPv4 address, such as 10.66.20.77"
	StaticIP string `json:"staticIP,omitempty"`
}

// IPAddressPhase is the phase of an address.
//
// +kubebuilder:validation:Enum=Pending;Bound;Attached
type IPAddressPhase string

// The phases of an address.
const (
	IPAddressPending  IPAddressPhase = "Pending"  // it has no lease, see Reason
	IPAddressBound    IPAddressPhase = "Bound"    // leased, not used by a VM
	IPAddressAttached IPAddressPhase = "Attached" // a VM uses it
)

// VirtualMachineIPAddressStatus is the reserved address and its VM.
type VirtualMachineIPAddressStatus struct {
	// Current phase: Pending, Bound or Attached. Reason and message explain why the address is
	// Pending, or contain a warning.
	//
	// +optional
	Phase IPAddressPhase `json:"phase,omitempty"`
	// Leased IP address.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
	// Name of the VM that uses the address.
	//
	// +optional
	VirtualMachine string `json:"virtualMachine,omitempty"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// VirtualMachineIPAddressLease is the lease of an address in the whole cluster. Its name contains
// the address (ip-10-66-10-14), which makes the lease unique. Written by managers.
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

	// Owner of the lease.
	//
	// +required
	Spec VirtualMachineIPAddressLeaseSpec `json:"spec,omitzero"`
	// State of the lease.
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

// VirtualMachineIPAddressLeaseSpec is the owner of a lease.
type VirtualMachineIPAddressLeaseSpec struct {
	// VirtualMachineIPAddress that holds the lease, or held it last.
	VirtualMachineIPAddressRef IPAddressRef `json:"virtualMachineIPAddressRef"`
}

// IPAddressRef names a VirtualMachineIPAddress.
//
// +kubebuilder:validation:XValidation:rule="self.__namespace__ == oldSelf.__namespace__",fieldPath=".namespace",message="a lease stays in its namespace: it can be made for another one when it is gone"
type IPAddressRef struct {
	// Name of the VirtualMachineIPAddress.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the VirtualMachineIPAddress.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// LeasePhase is the phase of a lease.
//
// +kubebuilder:validation:Enum=Bound;Released
type LeasePhase string

// The phases of a lease.
const (
	LeaseBound    LeasePhase = "Bound"    // held by the address object
	LeaseReleased LeasePhase = "Released" // reserved for the namespace for some time
)

// VirtualMachineIPAddressLeaseStatus is the state of a lease.
type VirtualMachineIPAddressLeaseStatus struct {
	// Current phase: Bound or Released.
	//
	// +optional
	Phase LeasePhase `json:"phase,omitempty"`
	// Name of the VM that uses the address. Until its pod is gone, the lease is neither released
	// nor given to another VM.
	//
	// +optional
	VirtualMachine string `json:"virtualMachine,omitempty"`
	// Time when the lease was released, by the manager's clock.
	//
	// +optional
	ReleaseTime *metav1.Time `json:"releaseTime,omitempty"`
}

// FirstTap returns the index of the first tap network, which uses the VM's address; -1 if there is
// none.
func (m *VM) FirstTap() int {
	return slices.IndexFunc(m.Networks, func(n Network) bool { return n.Tap != nil })
}
