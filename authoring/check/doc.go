// Package check tests plans with the installed QEMU: QEMU creates the whole machine, with
// all devices, and waits to be started, which it never is.
//
// It needs no privileges and leaves nothing behind. Effects of a plan on the computer are
// replaced, so that a plan can be tested anywhere, even while the VM is running.
//
//   - The data and runtime directories are in a temporary folder, and so is every
//     other file that QEMU would write or that isn't there. Images are empty. A
//     firmware or kernel that exists is read.
//   - Networks lead nowhere: a tap becomes a hubport. Ports that QEMU would listen
//     on become unix sockets, or unused ports.
//   - Without KVM, TCG takes its place, and the CPU model host is max.
//   - Memory is neither preallocated nor on huge pages.
//   - A device of the host that cannot be opened (vfio-pci, vhost-vsock-pci) is
//     left out once QEMU has read its properties, and reported as such.
//
// Helpers of the plan (swtpm) are started as planned.
//
// In a machine that QEMU has accepted the requirements of the plan's rules are checked: that
// a balloon is one, how many CPUs can be plugged, whether a password can be set.
package check
