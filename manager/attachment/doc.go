// Package attachment decides how a disk gets into a VM that is running, and out of it again: pure
// functions of what there is of the VM, of the disk, and of the export that serves it
// (objects.Export).
//
//	attach:  the disk's lock ─▶ export ─▶ it is ready ─▶ drive in the VM's configuration ─▶ Attached
//	detach:  drive out of the configuration ─▶ the guest has let go ─▶ no export ─▶ no lock
//
// What is to be there is decided level triggered, from what there is: Decide returns the same for
// the same situation, whatever has been before, so that a manager can be killed after any write.
//
// A disk is written by one VM, in one way at a time. Decide holds to that for the export, and package
// provision for a pod that mounts the claim (not while there is an export) and for the lock (it stays
// as long as either is there): both ask the API server, and not a watch, before they act. See
// docs/decisions/0108-nbd-exports.md and docs/decisions/0109-disk-lock.md.
package attachment
