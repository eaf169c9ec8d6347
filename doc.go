// Package vmop is only the root of the module: it holds the tests that keep the
// architecture and the style of the whole tree.
//
// In the order in which a virtual machine comes to life: [vmop/runner/config]
// reads the configuration file, whose vm section is [vmop/vmspec]'s. A VM type,
// written in Starlark and evaluated by [vmop/vmtypes], turns it into a
// [vmop/vmtypes/plan]. [vmop/runner] carries the plan out: [vmop/cloudinit] makes
// the guest's configuration disk, [vmop/netsetup] its network devices,
// [vmop/internal/childprocess] starts swtpm and QEMU, [vmop/qmp] speaks with QEMU,
// and [vmop/runner/machine/reconcile] decides what to tell it. ARCHITECTURE.md draws how
// they may depend on each other.
package vmop
