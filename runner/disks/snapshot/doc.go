// Package snapshot creates snapshots of a VM, and restores them.
//
// A snapshot is a folder below the VM's data directory. It contains all writable disks and the firmware variables
// as they were at one moment, the state of the TPM, the configuration and the VM type:
//
//	DATADIR/snapshots/NAME/snapshot.json    the contents, and how consistent they are
//	                       config.yaml      the configuration, for people
//	                       drive0.qcow2     a disk of a running VM; drive0.raw or .qcow2 of a stopped VM
//	                       fw-vars.fd.qcow2, tpm/, vmtype.txtar, machines.txt
//
// While the VM is running, its runner creates snapshots ([Live]), and QEMU copies the disks. [Stopped] copies a
// stopped VM, and [Restore] restores it, while holding the lock of its runner.
//
// A snapshot gets its name when it is complete and durable. A restore uses a journal to replace either everything
// or no file. [Recover] cleans up after killed programs.
//
// See docs/decisions/0119-snapshots.md.
package snapshot
