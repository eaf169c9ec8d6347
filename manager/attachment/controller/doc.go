// Package controller attaches disks to running VMs, and detaches them, following the decisions of package
// attachment (VirtualMachineBlockDeviceAttachment).
//
//	controller.go  which VMs to reconcile, and when
//	vm.go          a VM: [Controller.Attach] is a step of its reconciliation
//	disk.go        a disk of a VM: its state, the decision, and the actions
//	export.go      the objects that serve a disk: a Service, a Secret and a pod
//	authority.go   the certificates of a VM
//	status.go      the status of an attachment, and the entry in the VM's status
//	write.go       the writes, each of which the API server refuses after a concurrent change
//
// All steps run sequentially in the VM's reconciliation, which also gives the VM's pod the claims of its disks,
// and its runner the configuration with the drives. The controller derives the steps from the current state: the
// attachments, the export pods, and the drives in the VM's configuration. If a user removes the finalizer of an
// attachment, its exported disk is detached like the disk of a deleted attachment. A manager may be killed after
// any write.
package controller
