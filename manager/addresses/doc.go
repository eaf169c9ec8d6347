// Package addresses decides who has which IP address: pure functions of the ranges in the
// manager's configuration, of address objects (VirtualMachineIPAddress) and of leases.
//
// The lease is the truth. It is an object of the whole cluster whose name is made of the
// address, so that of two managers that want the same one the API server refuses one: no
// manager needs to know another. A lease comes before the address object that it is for,
// and goes after it; while a VM's pod exists that may use the address, the lease stays.
//
//	ranges.go   which addresses there are, and what comes with one
//	names.go    how leases and the address objects of VMs are called
//	address.go  what becomes of an address object, and of the VM that wants it
//	lease.go    when a lease is released, and when it goes
//
// Package manager/leases does what is decided here. See docs/decisions/0096-lease-names.md.
package addresses
