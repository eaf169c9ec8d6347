// Package compare determines what a change of a VM type means for guests.
//
// [Plans] compares two plans and returns the changes that a guest or the host would notice. It matches options by their
// identity (a flag with an id, a driver, or a property of -global), so the order of options only matters where QEMU
// uses it. Where QEMU assigns addresses in order, the package computes the addresses for both plans and compares them
// (order.go).
//
// Each change has a [Meaning]. An option that is missing in the tables is [Unknown], never harmless.
// docs/vm-types/compare.md describes what to do for each meaning.
//
// [Summarize] combines equal changes of many plans.
package compare
