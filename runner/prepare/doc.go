// Package prepare computes everything about a VM that can be computed without
// starting anything, and changes nothing: `vmrunner plan` is little more than a call
// of it.
//
//	configuration ── Open ──▶ VM ── Complete ──▶ Spec, Pin, Plan
//
// Its files are in the order in which a VM goes through them:
//
//	prepare.go  configuration, directories, cloud-init data; then the rest, in order
//	pin.go      the VM type and the machine versions of the first start
//	host.go     what a VM type may know of this computer
//	judge.go    whether the policy allows the plan
//	names.go    the files of a VM that are the runner's own, and no plan's
//
// What was found out about the computer is kept (Facts): with it, the configuration
// and the pinned type, another runner computes the same plan again.
package prepare
