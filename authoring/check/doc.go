// Package check has plans tried by the QEMU that is installed: QEMU makes the
// whole machine, with all devices, and waits to be started, which it never is.
//
// It needs no rights and leaves nothing behind. What a plan would have done to the
// computer is replaced, so that a plan can be tried anywhere, also while the VM
// runs.
//
//   - The data and runtime directories are in a temporary folder, and so is every
//     other file that QEMU would write or that isn't there. Images are empty. A
//     firmware or kernel that exists is read.
//   - Networks lead nowhere: a tap becomes a hubport. Ports that QEMU would listen
//     on become unix sockets, or ports that nobody else uses.
//   - Without KVM, TCG takes its place, and the CPU model host is max.
//   - Memory is neither preallocated nor on huge pages.
//   - A device of the host that cannot be opened (vfio-pci, vhost-vsock-pci) is
//     left out once QEMU has read its properties; what was left out is told.
//
// Helpers of the plan (swtpm) are started as the plan says.
//
// A machine that QEMU has accepted is asked for what the rules of the plan need:
// whether a balloon is one, how many CPUs can be plugged, whether a password can
// be set.
package check
