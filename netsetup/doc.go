// Package netsetup connects a virtual machine to a network: it makes the tap
// whose descriptor QEMU gets (-netdev tap,fd=N), and what has to stand behind
// that tap on the host's side.
//
// There are two ways. OpenTap attaches a tap to a bridge that exists already:
// the machine is a neighbour of everything else on that bridge and gets its
// address from the DHCP server of that network, or from this process (Lease), and rules
// that keep it to that address. OpenMasquerade needs no bridge: the tap
// carries the gateway address of a private subnet, an in-process DHCP server
// gives the machine one address of it, and rules of nftables hide the machine
// behind the addresses of the network namespace the caller is in, as a home
// router does. Forwarded ports lead back in. That is the way for pods, and for
// computers without a bridge.
//
// # Nothing is left behind
//
// Everything that is made here depends on a descriptor of this process, so that the kernel
// removes it however the process ends:
//
//	tap, its addresses and routes    last descriptor of the tap, here or in QEMU
//	rules of nftables                the netlink socket that owns their table, here or in QEMU
//	DHCP server, reserved ports      their sockets
//
// So after a kill -9 of the caller only what QEMU still holds remains: the tap, and rules
// that it has inherited. AdoptTap and AdoptMasquerade recreate the rest for the running
// machine. OpenTap and OpenMasquerade replace a tap that carries the mark of the same owner;
// an interface of the same name without that mark is not theirs, and an error. There are
// two exceptions. IPv4 forwarding, once enabled, stays enabled, because other programs may
// rely on it by then. And before Linux 5.12 a table cannot be owned: there it outlives a
// killed caller, matching an interface that does not exist, until the next OpenMasquerade
// of that name replaces it.
//
// # Namespaces and threads
//
// All functions work in the network namespace of the calling thread. A caller
// that changes namespaces must have locked its goroutine to the thread
// (runtime.LockOSThread). Close may be called from anywhere.
//
// # Rights
//
// Making taps and rules needs CAP_NET_ADMIN, the DHCP server and forwarded
// ports below 1024 need CAP_NET_BIND_SERVICE, a lease on a bridge CAP_NET_RAW, all in the user namespace that
// owns the network namespace. Neither the program nft nor QEMU's bridge helper
// nor a set-uid program is needed. Every error that a user can do something
// about is an *Error with a Fault and a remedy.
//
// See docs/decisions/0005-nftables.md.
package netsetup
