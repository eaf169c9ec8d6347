package addresses

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "vmop/api/v1"
)

// Target returns the address that an address object has or asks for; the zero Addr if it is to
// get any that is free. own are the leases that are for it.
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

// Lowest returns the lease of the lowest address. There are several for one address object only
// if a manager was killed, and the next one knew too little.
func Lowest(leases []*v1.VirtualMachineIPAddressLease) *v1.VirtualMachineIPAddressLease {
	return slices.MinFunc(leases, func(a, b *v1.VirtualMachineIPAddressLease) int {
		return AddressOf(a.Name).Compare(AddressOf(b.Name))
	})
}

// A Claim is what becomes of the lease that an address object has or asks for.
type Claim int

// The claims.
const (
	Has     Claim = iota // it has the lease
	Make                 // the lease is to be created
	Take                 // the lease, which is released, is to become its
	Refused              // it can't have the lease
)

// Reasons of an address object or a VM without an address.
const (
	ReasonTaken      = "AddressTaken"
	ReasonNotUsable  = "AddressNotUsable"
	ReasonNoneFree   = "NoFreeAddress"
	ReasonOutOfRange = "AddressOutOfRange"
	ReasonMissing    = "IPAddressMissing"
	ReasonPending    = "IPAddressPending"
	ReasonInUse      = "IPAddressInUse"
	ReasonNotReady   = "AddressesUnavailable"
)

// ClaimOf returns what becomes of the lease of an address, nil if there is none, which the
// address object a has or asks for; and why it is refused. What another namespace has is not
// said to this one.
func ClaimOf(a *v1.VirtualMachineIPAddress, address netip.Addr, lease *v1.VirtualMachineIPAddressLease, r Ranges) (
	claim Claim, reason, message string,
) {
	if lease == nil {
		if why := r.Unusable(address); why != "" && a.Status.Address == "" {
			return Refused, ReasonNotUsable, why
		}
		return Make, "", ""
	}
	ref, released := lease.Spec.VirtualMachineIPAddressRef, lease.Status.Phase == v1.LeaseReleased
	switch {
	case ref.Namespace != a.Namespace:
		return Refused, ReasonTaken, fmt.Sprintf("%s is leased in another namespace", address)
	case released && a.Status.Address == "" && r.Unusable(address) != "":
		return Refused, ReasonNotUsable, r.Unusable(address)
	case released:
		return Take, "", ""
	case ref.Name != a.Name:
		return Refused, ReasonTaken, fmt.Sprintf("%s is leased to the VirtualMachineIPAddress %s", address, ref.Name)
	}
	return Has, "", ""
}

// StatusOf returns the status of an address object that has a lease.
func StatusOf(lease *v1.VirtualMachineIPAddressLease, r Ranges) v1.VirtualMachineIPAddressStatus {
	address := AddressOf(lease.Name)
	s := v1.VirtualMachineIPAddressStatus{
		Phase: v1.IPAddressBound, Address: address.String(), VirtualMachine: lease.Status.VirtualMachine,
	}
	if s.VirtualMachine != "" {
		s.Phase = v1.IPAddressAttached
	}
	one := r.of(address)
	if why := r.Unusable(address); why != "" && (one == nil || !one.Retired) {
		s.Reason, s.Message = ReasonOutOfRange, why+"; it stays leased as long as this object exists"
	}
	return s
}

// PendingStatus returns the status of an address object that has no lease.
func PendingStatus(reason, message string) v1.VirtualMachineIPAddressStatus {
	return v1.VirtualMachineIPAddressStatus{Phase: v1.IPAddressPending, Reason: reason, Message: message}
}

// For is what becomes of a VM that is to have an address object.
type For int

// The cases.
const (
	ForNothing For = iota // it has the address
	ForCreate             // the object is to be created
	ForAttach             // the address is to become the VM's
	ForWait               // something has to change first
)

// ForVM returns what becomes of a VM that is to have the address object of a name; a is that
// object and lease its lease, nil if they don't exist; and why the VM waits.
func ForVM(vm *v1.VirtualMachine, name string, automatic bool, a *v1.VirtualMachineIPAddress,
	lease *v1.VirtualMachineIPAddressLease,
) (what For, reason, message string) {
	switch {
	case a == nil && automatic:
		return ForCreate, "", ""
	case a == nil:
		return ForWait, ReasonMissing, fmt.Sprintf(
			"there is no VirtualMachineIPAddress %s: create it, or name another in spec.virtualMachineIPAddressName", name)
	case a.DeletionTimestamp != nil || automatic && ofFormer(vm, a):
		return ForWait, ReasonPending, fmt.Sprintf(
			"the VirtualMachineIPAddress %s is being deleted: waiting until it is gone", name)
	case lease == nil || lease.Spec.VirtualMachineIPAddressRef != RefOf(a) || lease.Status.Phase == v1.LeaseReleased:
		message := "no manager has seen it yet"
		if a.Status.Phase == v1.IPAddressPending && a.Status.Message != "" {
			message = a.Status.Message
		}
		return ForWait, ReasonPending, fmt.Sprintf("the VirtualMachineIPAddress %s has no address: %s", name, message)
	case lease.Status.VirtualMachine == "":
		return ForAttach, "", ""
	case lease.Status.VirtualMachine != vm.Name:
		return ForWait, ReasonInUse, fmt.Sprintf("the VirtualMachineIPAddress %s is attached to the VM %s",
			name, lease.Status.VirtualMachine)
	}
	return ForNothing, "", ""
}

// ofFormer reports whether an object belongs to a VM of the same name that was deleted.
func ofFormer(vm *v1.VirtualMachine, a *v1.VirtualMachineIPAddress) bool {
	for _, owner := range a.OwnerReferences {
		if owner.Kind == "VirtualMachine" && owner.Name == vm.Name && owner.UID != vm.UID {
			return true
		}
	}
	return false
}

// RefOf returns how a lease names an address object.
func RefOf(a *v1.VirtualMachineIPAddress) v1.IPAddressRef {
	return v1.IPAddressRef{Name: a.Name, Namespace: a.Namespace}
}
