// Package class has what a VirtualMachineClass means: pure functions of classes, VMs and
// nodes.
//
//	Extract    what a VM takes of its class when it starts
//	Resolve    the VM with that: the one definition from which objects and plans are made
//	Mismatch   how the size of a VM violates the sizing policies
//	Status     where VMs of a class can run
//
// What was taken is written down (Taken.Record), beside the configuration that was made of
// it: a VM that is running stays what it is, however its class changes, and a manager that
// is killed and started again finds what was taken. See docs/decisions/0090-classes.md.
package class
