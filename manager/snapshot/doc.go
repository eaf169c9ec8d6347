// Package snapshot decides about snapshots of disks (VirtualDiskSnapshot) and of VMs (VirtualMachineSnapshot).
// Its functions are pure. They depend on a snapshot, its disk, and the VolumeSnapshots with the data.
//
//	next.go     the next step for a snapshot of a disk
//	status.go   the status of a snapshot of a disk
//	machine.go  the next step and the status for a snapshot of a VM
//	volume.go   VolumeSnapshots: the kinds of the group snapshot.storage.k8s.io
//
// A snapshot is created once: while the guest's file systems are frozen, or while no VM uses the disk. Only the
// process that created the snapshot knows whether that was the case. If a manager is killed during the creation,
// its snapshot is not consistent.
//
// Package manager/snapshot/controller performs these decisions. See docs/decisions/0116-disk-snapshots.md.
package snapshot
