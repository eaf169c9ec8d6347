// Package class implements the meaning of a VirtualMachineClass, with pure functions of classes, VMs and nodes.
//
//	Extract    what a VM takes from its class when it starts
//	Resolve    the VM with these values: the single definition for objects and plans
//	Mismatch   how the size of a VM violates the sizing policies
//	Status     where VMs of a class can run
//
// The taken values are recorded (Taken.Record) next to the configuration that was created from them. Therefore a
// running VM doesn't change when its class changes, and a restarted manager finds the taken values. See
// docs/decisions/0090-classes.md.
package class
