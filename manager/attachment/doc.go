// Package attachment decides how to attach a disk to a running VM, and how to detach it. Its functions are pure.
// They depend on the state of the VM, of the disk, and of the export that serves the disk (objects.Export).
//
//	attach:  the disk's lock ─▶ export ─▶ export ready ─▶ drive in the VM's configuration ─▶ Attached
//	detach:  drive out of the configuration ─▶ released by the guest ─▶ no export ─▶ no lock
//
// Decisions are level-triggered: Decide returns the same plan for the same situation, regardless of earlier
// events. So a manager can be killed after any write.
//
// Only one VM writes to a disk at a time, and only in one way. Decide enforces this rule for the export. Package
// disk/controller enforces it for pods and for the lock:
//
//   - A pod can't mount the claim while the export exists.
//   - The lock stays as long as the export or the pod exists.
//
// Before they act, both ask the API server instead of relying on a watch. See docs/decisions/0108-nbd-exports.md
// and docs/decisions/0109-disk-lock.md.
package attachment
