// Package adopt proposes a change of a VM type from a command line of QEMU.
//
// It is the inverse of an evaluation: a type computes a plan, and this package computes how the type and the VM would
// have to change so that the plan contains what a command line wants. [Parse] reads the command line, and [Propose]
// returns a [Proposal], which contains
//
//   - fields of the configuration, for everything that belongs to the VM and not to the type (fields.go)
//   - a new source of the type with calls of change, replace and part (edits.go, module.go)
//   - the rest: everything that was not placed, each with a reason
//
// [vmop/authoring/compare] decides which options correspond to each other. A proposal is never guessed to be right:
// each step is evaluated, and kept only if the differences between the plan and the command line decrease. The
// remaining differences are the rest. See docs/decisions/0198-adopt.md.
package adopt
