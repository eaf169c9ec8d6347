// Package leases gives VMs their addresses: it writes the address objects of the manager's
// namespace (VirtualMachineIPAddress) and their leases, as package addresses decides.
//
//	controller.go  what there is to look at, and when
//	object.go      an address object and the leases that are for it
//	vm.go          a VM: [Controller.Attach] is a step of its reconciliation
//	write.go       the writes, each of which the API server refuses if something changed
//
// The creation of a lease decides who has an address. All that follows is done again by who
// finds that it isn't done: a manager may be killed after any write.
package leases
