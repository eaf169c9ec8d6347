// Package controller creates the disks (VirtualDisk) and images of the manager's namespace and attaches them to VMs. It
// carries out the decisions of package disk.
//
//	controller.go    the Controller: its inputs, and when it looks at a disk
//	disk.go          a disk: its claim and its status
//	import.go        the pod that imports the data of a disk
//	key.go           the TLS key of such a pod
//	copy.go          the source of a copy: a disk or an image
//	claim.go         the source of a copy: the user's own claim
//	clusterimage.go  the images that store ClusterVirtualImages
//	export.go        the pod from which a user downloads a disk
//	progress.go      the progress that a pod reports
//	wanted.go        which VMs wait for a disk: its volume is created near them
//	vm.go            a VM: its reconciliation calls [Controller.Attach] and [Controller.Release]
//	move.go          the copies of disks during a migration
//	write.go         the writes, which the API server refuses after a conflicting change
//
// The status of a disk names its VM before a pod that could write to the disk exists, and until no such pod is left. A
// VM takes and releases disks only in its own reconciliation, which is serialized. A manager may be killed after any
// write.
package controller
