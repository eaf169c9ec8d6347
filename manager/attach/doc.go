// Package attach attaches disks to VMs that are running, and detaches them, as package attachment
// decides (VirtualMachineBlockDeviceAttachment).
//
//	controller.go  what there is to look at, and when
//	vm.go          a VM: [Controller.Attach] is a step of its reconciliation
//	disk.go        one disk of it: what is known, what is decided, and what is done
//	export.go      what serves the disk: a Service, a Secret and a pod
//	authority.go   the certificates of a VM
//	status.go      what an attachment, and the VM, say of it
//	write.go       the writes, each of which the API server refuses if something changed
//
// All is done where the VM is reconciled, one thing after another, as that is also where its pod
// gets the claims of its disks, and its runner the configuration with the drives. What there is to
// do follows from what there is: from the attachments, the pods that export, and the drives in the
// VM's configuration. A disk that is exported without an attachment, whose finalizer a user has
// removed, is detached like that of a deleted one. A manager may be killed after any write.
package attach
