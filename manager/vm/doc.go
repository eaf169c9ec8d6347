// Package vm is the controller of VirtualMachines: it makes the cluster hold what
// a VM needs, and the VM's status say how it is.
//
// A reconciliation reads what the mirror has (mirror.go), asks pure functions what is
// to be done (package objects for what the cluster shall hold, decide.go and phase.go
// for the rest), and takes steps, one file each. What differs is applied server-side;
// where nothing differs nothing is written, and nothing is read. A step that can't be
// done is told in the condition Reconciled, and keeps a VM from starting that doesn't
// run.
//
// Nothing is remembered that a manager killed at any moment would miss: what it needs
// to know is in the VM's status, in annotations, or in the name of an event.
package vm
