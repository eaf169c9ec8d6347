// Package controller assigns addresses to VMs. It writes the address objects of the manager's namespace
// (VirtualMachineIPAddress) and their leases, following the decisions of package addresses.
//
//	controller.go  which addresses to reconcile, and when
//	object.go      an address object and its leases
//	vm.go          a VM: [Controller.Attach] is a step of its reconciliation
//	write.go       the writes, each of which the API server refuses after a concurrent change
//
// The creation of a lease decides which VM or address object gets an address. A manager may be killed after any
// write. The next manager finds the missing steps and performs them.
package controller
