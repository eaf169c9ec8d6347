// Package addresses decides which VM gets which IP address. Its functions are pure. They depend on the ranges in
// the manager's configuration, on address objects (VirtualMachineIPAddress), and on leases.
//
// The lease is authoritative. It is an object of the whole cluster, named after the address. If two managers choose
// the same address, the API server refuses one of them, so managers need not know each other. A lease is created
// before its address object and deleted after it. The lease stays as long as a VM's pod exists that may use the
// address.
//
//	ranges.go   the available addresses, and the settings that come with an address
//	names.go    the names of leases and of the address objects of VMs
//	address.go  the action for an address object, and for the VM that wants it
//	lease.go    when to release a lease, and when to delete it
//
// Package manager/addresses/controller performs these decisions. See docs/decisions/0096-lease-names.md.
package addresses
