// Package controller implements the controller of VirtualMachines. It creates what a VM needs in the cluster, and
// publishes the VM's state in its status.
//
// A reconciliation (reconcile.go) takes a snapshot of the store (snapshot.go) and runs a series of steps. In each
// step, package decide makes the decisions and package apply carries them out. A step returns its result, which
// later steps receive as an argument, and reports what it could not do.
//
// A step that fails, even by a panic, doesn't prevent the other steps. Its report appears in the condition
// Reconciled, and prevents the start of a VM that isn't running.
//
// The controller reads data that the store lacks from the API server only when necessary: the source texts of custom
// VM types (modules.go), and the reasons why a VM doesn't start (explain.go, warnings.go).
//
// The manager may be killed at any moment. Therefore everything that it needs later is in the VM's status, in
// annotations, or in the name of an event.
package controller
