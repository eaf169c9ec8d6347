// Package vm is the controller of VirtualMachines: it makes the cluster hold what a VM
// needs, and publishes in the VM's status how it is.
//
// A reconciliation (reconcile.go) takes a snapshot of what the store has (snapshot.go),
// and goes through steps: package decide says what is to be done, package apply does it.
// Each step returns its result, which later steps take as an argument, and reports what it
// could not do. A step that fails, even by a panic, keeps no other from being taken; its
// report is in the condition Reconciled, and keeps a VM that is not running from starting.
//
// What the store doesn't have is read from the API server only when it is needed: the
// texts of custom VM types (modules.go), and why a VM doesn't start (explain.go,
// warnings.go).
//
// Nothing is remembered that a manager killed at any moment would need: that is in the
// VM's status, in annotations, or in the name of an event.
package vm
