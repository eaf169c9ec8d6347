// Package capture makes snapshots of disks (VirtualDiskSnapshot) and of VMs (VirtualMachineSnapshot), as
// package snapshot decides.
//
//	controller.go      which snapshots of disks there are to look at, and when
//	snapshot.go        one of them: its VolumeSnapshot, and its status
//	attempt.go         the attempt to make a VolumeSnapshot while nothing is written
//	machine.go         snapshots of VMs: which there are, their VolumeSnapshots, and their status
//	machineattempt.go  the attempt to make all of a VM while nothing is written
//	attempts.go        the attempts of this process
//	queue.go           what is looked at
//	write.go           the writes
//
// An attempt waits for a guest, its runner and a storage driver, so each is a goroutine of its own, for
// half a minute at most. Whatever becomes of it and of this process, the runner thaws the guest by
// itself.
package capture
