// Package check tests plans with the installed QEMU. QEMU creates the whole machine with all devices, but never starts
// it.
//
// The check needs no privileges and leaves no files behind. It replaces everything in a plan that affects the computer,
// so you can test a plan anywhere, even while the VM is running:
//
//   - The data and runtime directories are in a temporary folder. The same applies to all other
//     files that QEMU would write or that don't exist. Images are empty. Existing firmware and
//     kernels are read.
//   - Networks are isolated: a tap becomes a hubport. Ports that QEMU would listen on become unix
//     sockets, or unused ports.
//   - Without KVM, QEMU uses TCG, and the CPU model host becomes max.
//   - Preallocated memory, huge pages and memory that is bound to NUMA nodes become ordinary
//     memory. Memory that is too large for the computer is not reserved. The result contains these
//     replacements.
//   - A device of the host that cannot be opened (vfio-pci, vhost-vsock-pci) is omitted after QEMU
//     has read its properties. The result contains the omitted devices.
//
// Helpers of the plan (swtpm) are started as planned. If the program of a helper is not installed, the package itself
// answers QEMU (vhost-user), or omits the devices that need the helper.
//
// If QEMU accepts the machine, the package checks the requirements of the plan's rules, for example that a balloon
// device exists, how many CPUs can be plugged, and whether a password can be set.
package check
