// Package vmop is the root of the module. It contains only the tests that check the architecture and the style of the
// whole tree.
//
// These packages start a virtual machine, in this order: [vmop/runner/config] reads the configuration file, with the vm
// section that [vmop/vmspec] defines. A VM type, written in Starlark and evaluated by [vmop/vmtypes], converts it to a
// [vmop/vmtypes/plan]. [vmop/runner] carries out the plan: [vmop/cloudinit] creates the guest's configuration disk,
// [vmop/netsetup] creates its network devices, [vmop/internal/childprocess] starts swtpm and QEMU, [vmop/qmp] talks to
// QEMU, and [vmop/runner/machine/reconcile] decides which commands to send. ARCHITECTURE.md shows which package may
// import which.
package vmop
