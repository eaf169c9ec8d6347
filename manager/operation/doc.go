// Package operation decides about the VirtualMachineOperations of a VM. It is pure: manager/vm/controller reads the
// objects, and manager/vm/apply writes and sends.
//
//	plan := operation.Decide(situation)   // which statuses to write, which signal to send, what to delete
//	signal := operation.SignalOf(op, vm, pod)
//
// A possible operation becomes the active operation of its VM. A VM has at most one active operation; applicable.go
// defines which operations are possible, and which replace the active one. The target of an operation is written to its
// status before its signal is sent (signal.go). A manager that takes over then sends the same signal again, or none if
// it had its effect. The operation ends when its effect is visible (outcome.go). Finished operations are kept for some
// time (retention.go).
//
// See docs/decisions/0084-operations.md, and docs/reference/operations.md for the user's view.
package operation
