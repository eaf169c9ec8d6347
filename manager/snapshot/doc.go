// Package snapshot decides what becomes of snapshots of disks (VirtualDiskSnapshot) and of VMs
// (VirtualMachineSnapshot): pure functions of a snapshot, its disk, and the VolumeSnapshots that have
// the data.
//
//	next.go     what is to be done next
//	status.go   what the status says
//	machine.go  the same of a snapshot of a VM
//	volume.go   VolumeSnapshots: the kinds of the group snapshot.storage.k8s.io
//
// A snapshot is made once: while the guest's file systems are frozen, or while no VM has the disk.
// Whether that was so is known to the process that made it only: a snapshot of a manager that was
// killed meanwhile is not consistent.
//
// Package manager/capture does what is decided here. See docs/decisions/0116-disk-snapshots.md.
package snapshot
