// Package netsetup connects a VM to a network. It creates the tap, passes its descriptor to QEMU (-netdev tap,fd=N),
// and sets up the host's side of that tap.
//
// There are two ways:
//
//   - OpenTap attaches a tap to an existing bridge. The VM is a neighbor of everything else on that bridge. It gets
//     its address from the DHCP server of that network or from this process (Lease). With a Lease, rules keep the VM
//     to its address.
//   - OpenMasquerade needs no bridge, so it suits pods and computers without a bridge. The tap carries the gateway
//     address of a private subnet, and an in-process DHCP server gives the VM one address of that subnet. Like a
//     home router, nftables rules hide the VM behind the addresses of the caller's network namespace. Forwarded
//     ports lead back in.
//
// # Cleanup
//
// Everything that this package creates depends on a descriptor of this process, so the kernel removes it however the
// process ends:
//
//	tap, its addresses and routes    last descriptor of the tap, here or in QEMU
//	rules of nftables                the netlink socket that owns their table, here or in QEMU
//	DHCP server, reserved ports      their sockets
//
// After a kill -9 of the caller, only what QEMU still holds remains: the tap and the rules that QEMU has inherited.
// AdoptTap and AdoptMasquerade recreate the rest for the running VM. OpenTap and OpenMasquerade replace a tap that
// carries the mark of the same owner, and return an error for an interface of the same name without that mark.
//
// There are two exceptions:
//
//   - IPv4 forwarding, once enabled, stays enabled, because other programs may have come to rely on it.
//   - Before Linux 5.12 a table cannot have an owner. There it outlives a killed caller, matching an interface that
//     does not exist, until the next OpenMasquerade of that name replaces it.
//
// # Namespaces and threads
//
// All functions work in the network namespace of the calling thread. A caller that changes namespaces must have
// locked its goroutine to the thread (runtime.LockOSThread). Close may be called from any thread.
//
// # Rights
//
// The package needs these capabilities in the user namespace that owns the network namespace:
//
//   - CAP_NET_ADMIN for taps and rules
//   - CAP_NET_BIND_SERVICE for the DHCP server and for forwarded ports below 1024
//   - CAP_NET_RAW for a lease on a bridge
//
// It needs no set-uid program, and in particular not nft or QEMU's bridge helper. Every error that a user can fix is
// an *Error with a Fault and a remedy.
//
// See docs/decisions/0005-nftables.md.
package netsetup
