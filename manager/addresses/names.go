package addresses

import (
	"crypto/sha256"
	"net/netip"
	"strings"

	v1 "vmop/api/v1"
)

// leasePrefix begins the names of all leases.
const leasePrefix = "ip-"

// LeaseName returns the name of the lease of an address: ip-10-66-10-14.
func LeaseName(address netip.Addr) string {
	return leasePrefix + strings.ReplaceAll(address.String(), ".", "-")
}

// AddressOf returns the address that a lease of this name is of; the zero Addr if none is.
func AddressOf(lease string) netip.Addr {
	address, err := netip.ParseAddr(strings.ReplaceAll(strings.TrimPrefix(lease, leasePrefix), "-", "."))
	if err != nil || LeaseName(address) != lease {
		return netip.Addr{}
	}
	return address
}

// hashLetters are those that Kubernetes makes names of, which form no words.
const hashLetters = "bcdfghjklmnpqrstvwxz2456789"

// AutomaticName returns the name of the address object that the manager makes for a VM:
// linux-vm-7prpx. It is the same for a VM that is deleted and created again, and for
// another manager that continues where one was killed.
func AutomaticName(namespace, vm string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + vm))
	name := []byte(vm + "-")
	for _, b := range sum[:5] {
		name = append(name, hashLetters[int(b)%len(hashLetters)])
	}
	return string(name)
}

// NameFor returns the name of the address object that a VM is to have, and whether the
// manager makes it if there is none. "": the VM gets no address.
func NameFor(vm *v1.VirtualMachine, ranges Ranges) (name string, automatic bool) {
	if name := vm.Spec.VirtualMachineIPAddressName; name != "" {
		return name, false
	}
	if len(ranges) == 0 || vm.Spec.VM.FirstTap() < 0 {
		return "", false
	}
	return AutomaticName(vm.Namespace, vm.Name), true
}
