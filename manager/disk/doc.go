// Package disk decides what to do with disks (VirtualDisk) and images (VirtualImage). Its functions are pure: they
// compute the next step and the status from the objects in the cluster. Package manager/disk/controller carries out the
// steps.
//
//	names.go   names of claims, volumes, pods and Secrets, and who owns them
//	next.go    the next step for a disk, and its status
//	import.go  the same while a disk is being filled from a source; also importphase.go and remedy.go
//	pod.go     the pod that imports the data
//	copy.go    disks that are copies of disks or images
//	claim.go   disks that are copies of the user's own claims
//	restore.go disks restored from snapshots
//	export.go  downloads of disks and images
//	lock.go    which VM may use a disk, and which pod may copy it
//	move.go    the claims of a disk during a migration with copied disks
//	image.go   images, which are handled as disks
//
// The data is stored in a claim that the disk owns. The status records the claim's UID, because a later claim with the
// same name is a different claim.
//
// lock.go alone decides which VM may write to a claim. The status of the disk records that VM before a pod that mounts
// the claim is created. The status also records the import pod before the pod can start, and when the data was
// complete.
//
// See docs/decisions/0109-disk-lock.md, and docs/decisions/0110-disks-of-sources.md.
package disk
