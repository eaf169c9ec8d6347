// Package vm is the controller of VirtualMachines: it makes the cluster hold what
// a VM needs, and the VM's status say how it is.
//
// A reconciliation reads caches only, asks pure functions what is to be done
// (package objects for what the cluster shall hold, [decide] and [phaseOf] for the
// rest), and takes the steps of [steps], one file each. What differs is applied
// server-side; where nothing differs nothing is written, and nothing is read.
package vm
