// Package netsetup connects a virtual machine to a network: it makes the tap
// whose descriptor QEMU gets (-netdev tap,fd=N), and what has to stand behind
// that tap on the host's side.
//
// There are two ways. OpenTap attaches a tap to a bridge that exists already:
// the machine is a neighbour of everything else on that bridge and gets its
// address from whoever serves it. OpenMasquerade needs no bridge: the tap
// carries the gateway address of a private subnet, an in-process DHCP server
// gives the machine one address of it, and rules of nftables hide the machine
// behind the addresses of the network namespace the caller is in, as a home
// router does. Forwarded ports lead back in. That is the way for pods, and for
// computers without a bridge.
//
// # Nothing stays behind
//
// Whatever is made here hangs on a descriptor of this process, so that the
// kernel takes it down however the process ends:
//
//	tap, its addresses and routes    last descriptor of the tap, here or in QEMU
//	rules of nftables                the netlink socket that owns their table, here or in QEMU
//	DHCP server, reserved ports      their sockets
//
// After a kill -9 of the caller therefore nothing remains but what QEMU, if it
// survived, still holds: the tap, and rules that it has inherited. AdoptTap and
// AdoptMasquerade make the rest anew for the machine that runs on. OpenTap and OpenMasquerade replace a tap that
// carries the mark of the same owner; an interface of the same name without
// that mark belongs to somebody else and is an error. Two things are exempt.
// IPv4 forwarding, once switched on, stays on, because others may have come to
// rely on it. And before Linux 5.12 a table cannot be owned: there it outlives
// a killed caller, matching an interface that is gone, until the next
// OpenMasquerade of that name replaces it.
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
// ports below 1024 need CAP_NET_BIND_SERVICE, both in the user namespace that
// owns the network namespace. Neither the program nft nor QEMU's bridge helper
// nor a set-uid program is needed. Every error that a user can do something
// about is an *Error with a Fault and a remedy.
//
// See docs/decisions/0005-nftables.md.
package netsetup
