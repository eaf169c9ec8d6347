// Package prepare computes everything about a VM that can be computed without starting a process, and changes
// nothing on the computer: `vmrunner plan` is little more than a call of it.
//
//	configuration ── Open ──▶ VM ── Complete ──▶ Spec, Pin, Plan
//
// The files, in the order of the steps:
//
//	prepare.go  configuration, directories, cloud-init data; then the rest, in order
//	pin.go      the VM type and the machine versions of the first start
//	host.go     what a VM type may know about this computer
//	judge.go    whether the policy allows the plan
//	names.go    the files of a VM that are reserved for the runner
//
// A VM keeps the facts about the computer (Facts). From them, the configuration and the pinned type, another
// runner computes the same plan again.
package prepare
