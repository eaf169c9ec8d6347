// Package controller creates snapshots of disks (VirtualDiskSnapshot) and of VMs (VirtualMachineSnapshot),
// following the decisions of package snapshot.
//
//	controller.go      which snapshots of disks to reconcile, and when
//	snapshot.go        a snapshot of a disk: its VolumeSnapshot, and its status
//	attempt.go         the attempt to create a VolumeSnapshot while the disk is not being written
//	machine.go         snapshots of VMs: which to reconcile, their VolumeSnapshots, and their status
//	machineattempt.go  the attempt to create all VolumeSnapshots of a VM while its disks are not being written
//	attempts.go        the attempts of this process
//	write.go           the writes
//
// An attempt waits for a guest, its runner and a storage driver. Therefore each attempt is a separate goroutine
// with a time limit. The runner thaws the guest by itself, even if the attempt fails or this process ends.
package controller
