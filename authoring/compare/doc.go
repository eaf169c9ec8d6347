// Package compare determines what a change of a VM type means for guests.
//
// Two plans go in, and changes come out: not of text, but of what a guest or
// the host would notice. Options are matched by what they are (a flag and an id,
// a driver, a property of -global), so their order does not matter where it
// means nothing; where QEMU gives out addresses by order, the addresses are
// computed for both plans and compared (order.go).
//
// Each change has a [Meaning]. An option that the tables don't know is [Unknown], never
// harmless. docs/vm-types/compare.md says for each meaning what to do.
//
// [Summarize] puts together what is the same in many plans.
package compare
