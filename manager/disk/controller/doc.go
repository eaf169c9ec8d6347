// Package controller makes the disks of the manager's namespace (VirtualDisk) and gives them to
// VMs, as package disk decides.
//
//	controller.go  what there is to look at, and when
//	disk.go        a disk: its claim, and its status
//	import.go      the pod that imports the data of a disk
//	copy.go        what a disk is a copy of: another one, or an image
//	claim.go       or a claim that is no disk's
//	export.go      the pod from which a user fetches the data of a disk
//	progress.go    how far such a pod is, which it says itself
//	wanted.go      which VMs wait for a disk whose volume is made near them
//	vm.go          a VM: [Controller.Attach] and [Controller.Release] are steps of its reconciliation
//	move.go        the copies of disks of a VM whose guest moves
//	write.go       the writes, each of which the API server refuses if something changed
//
// The status of a disk says which VM has it before there is a pod that could write to it, and
// until there is none. All that a VM takes and leaves is done where the VM is reconciled, one
// after another. A manager may be killed after any write.
package controller
