// Package disk decides what becomes of disks (VirtualDisk) and images (VirtualImage): pure functions
// of a disk, of its claim and of the cluster's storage classes.
//
//	names.go   how claims are called, and what says whose they are
//	next.go    what is to be done next, and what the status says
//	import.go  the same of a disk that has a source, until its data is whole: importphase.go, remedy.go
//	pod.go     the pod that imports
//	copy.go    of which image or other disk a disk is a copy
//	claim.go   of which claim that is no disk's
//	restore.go of which snapshot
//	export.go  how a user gets the data of a disk, or an image
//	lock.go    which VM may have a disk, and which pod may copy it
//	move.go    which claim a disk has when the guest of its VM moves
//	image.go   images, which are made as disks are
//
// The data is in a claim, which the disk owns. The status says by its uid which claim that is:
// one of the same name that is made later, by whomever, is another.
//
// Which VM may write to the claim is decided in one place, lock.go, and is written into the status
// of the disk before there is a pod that mounts the claim.
//
// The status also says which pod imports the data, before that can start, and when the data was whole.
//
// Package manager/disk/controller does what is decided here. See docs/decisions/0109-disk-lock.md, and
// docs/decisions/0110-disks-of-sources.md.
package disk
