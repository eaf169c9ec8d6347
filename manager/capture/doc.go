// Package capture makes snapshots of disks (VirtualDiskSnapshot), as package snapshot decides.
//
//	controller.go  what there is to look at, and when
//	snapshot.go    a snapshot: its VolumeSnapshot, and its status
//	attempt.go     the attempt to make a VolumeSnapshot while nothing is written
//	write.go       the writes
//
// An attempt waits for a guest, its runner and a storage driver, so each is a goroutine of its own, for
// half a minute at most. Whatever becomes of it and of this process, the runner thaws the guest by
// itself.
package capture
