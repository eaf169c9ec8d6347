// Package draw tests VM types with drawn VMs. It draws vm sections from the fields of vmspec.Spec and the options that
// a type declares, and computers from the facts of a sample. For each VM that the configuration's reader accepts, the
// type must return a possible plan, and return it again for a second launch. The type may also refuse the VM with fail
// or through a declared option.
//
// [Run] reduces each VM that fails to the smallest VM with the same error. [Counterexample.Archive] returns a VM as a
// sample.
//
// See docs/decisions/0190-tests-of-vm-types.md.
package draw
