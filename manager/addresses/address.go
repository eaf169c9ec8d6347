package addresses

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "vmop/api/v1"
)

// Target returns the address that an address object has or requests. It returns the zero Addr if the object
// accepts any free address. own are the leases for the object.
func Target(a *v1.VirtualMachineIPAddress, own []*v1.VirtualMachineIPAddressLease) netip.Addr {
	for _, text := range []string{a.Status.Address, a.Spec.StaticIP} {
		if address, err := netip.ParseAddr(text); err == nil {
			return address
		}
	}
	if len(own) == 0 {
		return netip.Addr{}
	}
	return AddressOf(Lowest(own).Name)
}

// Lowest returns the lease of the lowest address. An address object only has several leases if a manager was
// killed and the next manager had incomplete information.
func Lowest(leases []*v1.VirtualMachineIPAddressLease) *v1.VirtualMachineIPAddressLease {
	return slices.MinFunc(leases, func(a, b *v1.VirtualMachineIPAddressLease) int {
		return AddressOf(a.Name).Compare(AddressOf(b.Name))
	})
}

// Claim is the action for the lease that an address object has or requests.
type Claim int

// The claims.
const (
	Has     Claim = iota // the object has the lease
	Make                 // create the lease
	Take                 // take over the released lease
	Refused              // the object can't have the lease
)

// Reasons why an address object or a VM has no address.
const (
	reasonTaken      = "AddressTaken"
	reasonNotUsable  = "AddressNotUsable"
	ReasonNoneFree   = "NoFreeAddress"
	ReasonOutOfRange = "AddressOutOfRange"
	reasonMissing    = "IPAddressMissing"
	reasonPending    = "IPAddressPending"
	reasonInUse      = "IPAddressInUse"
	ReasonNotReady   = "AddressesUnavailable"
)

// ClaimOf returns the action for the lease of an address that the address object a has or requests, and the
// reason for a refusal. lease is nil if it does not exist. The message does not reveal details of other
// namespaces.
func ClaimOf(a *v1.VirtualMachineIPAddress, address netip.Addr, lease *v1.VirtualMachineIPAddressLease, r Ranges) (
	claim Claim, reason, message string,
) {
	if lease == nil {
		if why := r.Unusable(address); why != "" && a.Status.Address == "" {
			return Refused, reasonNotUsable, why
		}
		return Make, "", ""
	}
	ref, released := lease.Spec.VirtualMachineIPAddressRef, lease.Status.Phase == v1.LeaseReleased
	switch {
	case ref.Namespace != a.Namespace:
		return Refused, reasonTaken, fmt.Sprintf("%s is leased in another namespace", address)
	case released && a.Status.Address == "" && r.Unusable(address) != "":
		return Refused, reasonNotUsable, r.Unusable(address)
	case released:
		return Take, "", ""
	case ref.Name != a.Name:
		return Refused, reasonTaken, fmt.Sprintf("%s is leased to the VirtualMachineIPAddress %s", address, ref.Name)
	}
	return Has, "", ""
}

// StatusOf returns the status of an address object with a lease.
func StatusOf(lease *v1.VirtualMachineIPAddressLease, r Ranges) v1.VirtualMachineIPAddressStatus {
	address := AddressOf(lease.Name)
	s := v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressBound, Address: address.String(), VirtualMachine: lease.Status.VirtualMachine,
	}
	if s.VirtualMachine != "" {
		s.Phase = v1.IPAddressAttached
	}
	one := r.rangeOf(address)
	if why := r.Unusable(address); why != "" && (one == nil || !one.Retired) {
		s.Reason, s.Message = ReasonOutOfRange, why+"; it stays leased as long as this object exists"
	}
	return s
}

// PendingStatus returns the status of an address object without a lease.
func PendingStatus(reason, message string) v1.VirtualMachineIPAddressStatus {
	return v1.VirtualMachineIPAddressStatus{Phase: v1.IPAddressPending, Reason: reason, Message: message}
}

// For is the action for a VM that needs an address object.
type For int

// The cases.
const (
	ForNothing For = iota // the VM has the address
	ForCreate             // create the object
	ForAttach             // attach the address to the VM
	ForWait               // wait for a change
)

// ForVM returns the action for a VM that needs the address object with the given name, and the reason if the VM
// must wait. a is that object and lease its lease; each is nil if it does not exist.
func ForVM(vm *v1.VirtualMachine, name string, automatic bool, a *v1.VirtualMachineIPAddress,
	lease *v1.VirtualMachineIPAddressLease,
) (what For, reason, message string) {
	switch {
	case a == nil && automatic:
		return ForCreate, "", ""
	case a == nil:
		return ForWait, reasonMissing, fmt.Sprintf(
			"there is no VirtualMachineIPAddress %s: create it, or name another in spec.virtualMachineIPAddressName", name)
	case a.DeletionTimestamp != nil || automatic && ofFormer(vm, a):
		return ForWait, reasonPending, fmt.Sprintf(
			"the VirtualMachineIPAddress %s is being deleted: waiting until it is gone", name)
	case lease == nil || lease.Spec.VirtualMachineIPAddressRef != RefOf(a) || lease.Status.Phase == v1.LeaseReleased:
		message := "no manager has seen it yet"
		if a.Status.Phase == v1.IPAddressPending && a.Status.Message != "" {
			message = a.Status.Message
		}
		return ForWait, reasonPending, fmt.Sprintf("the VirtualMachineIPAddress %s has no address: %s", name, message)
	case lease.Status.VirtualMachine == "":
		return ForAttach, "", ""
	case lease.Status.VirtualMachine != vm.Name:
		return ForWait, reasonInUse, fmt.Sprintf("the VirtualMachineIPAddress %s is attached to the VM %s",
			name, lease.Status.VirtualMachine)
	}
	return ForNothing, "", ""
}

// ofFormer reports whether an object belongs to a deleted VM with the same name.
func ofFormer(vm *v1.VirtualMachine, a *v1.VirtualMachineIPAddress) bool {
	for _, owner := range a.OwnerReferences {
		if owner.Kind == "VirtualMachine" && owner.Name == vm.Name && owner.UID != vm.UID {
			return true
		}
	}
	return false
}

// RefOf returns a lease's reference to an address object.
func RefOf(a *v1.VirtualMachineIPAddress) v1.IPAddressRef {
	return v1.IPAddressRef{Name: a.Name, Namespace: a.Namespace}
}
