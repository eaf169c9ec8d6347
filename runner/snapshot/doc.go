// Package snapshot makes snapshots of a VM, and restores them.
//
// A snapshot is a folder below the VM's data directory, with all writable disks and the
// firmware variables as they were at one moment, the state of the TPM, the configuration and
// the VM type:
//
//	DATADIR/snapshots/NAME/snapshot.json    what there is, and how consistent it is
//	                       config.yaml      the configuration, for people
//	                       drive0.qcow2     a disk of a VM that ran; drive0.raw of one that did not
//	                       fw-vars.fd.qcow2, tpm/, vmtype.txtar, machines.txt
//
// While the VM runs, its runner makes them ([Live]): QEMU copies the disks. One that
// doesn't run is copied by [Stopped], and restored by [Restore], under the lock of its runner.
//
// A snapshot gets its name when it is whole and on the disk; a restore replaces everything or
// nothing, by a journal. [Recover] cleans up after programs that were killed.
//
// See docs/decisions/0119-snapshots.md.
package snapshot
