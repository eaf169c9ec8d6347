// Package operation decides what becomes of the VirtualMachineOperations of a VM. It is
// pure: package vm reads, writes and sends.
//
//	plan := operation.Decide(situation)   // which statuses are written, which signal is sent, what is removed
//	signal := operation.SignalOf(op, vm, pod)
//
// An operation that can be carried out becomes the active one of its VM, of which there is
// at most one (applicable.go has which can, and which takes the place of which).
// Its target is in its status before its signal is sent (signal.go), so that a manager that
// is killed in between sends the same signal or none. Then its effect is awaited
// (outcome.go). Finished ones are kept for some time (retention.go).
//
// See docs/decisions/0084-operations.md, and docs/reference/operations.md for what users see.
package operation
