package prepare

import (
	"cmp"
	"net"
	"net/netip"

	"vmop/runner/status"
	"vmop/vmspec"
)

// Addresses looks up addresses in this network namespace. The functions of netsetup implement it; the manager and
// commands, which only predict changes, leave them out.
type Addresses struct {
	// Own returns the namespace's address for others, with an error if there is no way out of the namespace.
	Own func() (netip.Addr, error)
	// Guest returns the address that the guest gets behind a tap, with an error if there is no such tap.
	Guest func(tap string) (netip.Addr, error)
}

// Cards returns the cards of a running machine, with the ports of the configuration.
func (vm *VM) Cards(running *VM, addresses Addresses) status.Cards {
	networks := append([]vmspec.Network{}, running.Spec.Network...)
	for i := range networks {
		if networks[i].Type == vmspec.NetworkUser && vm.likeNetworks(running) {
			networks[i].Ports = vm.Spec.Network[i].Ports
		}
	}
	taps := vm.cardTaps()
	for _, c := range vm.NICs {
		n := vm.Networks[c.Index]
		n.Ifname = taps[c.MAC]
		networks = append(networks, n)
	}
	var own netip.Addr
	if addresses.Own != nil {
		own, _ = addresses.Own() // invalid without a way out
	}
	return cardsOf(networks, own, func(tap string) (guest netip.Addr) {
		if addresses.Guest != nil {
			guest, _ = addresses.Guest(tap) // invalid without a tap
		}
		return guest
	})
}

// macText returns a hardware address in the usual form.
func macText(text string) string {
	if mac, err := net.ParseMAC(text); err == nil {
		return mac.String()
	}
	return text
}

// cardsOf returns the addresses that lead to the guest through each of its networks. own is the namespace's
// address for others. lease returns the address that the guest gets behind a tap. Both may be invalid.
func cardsOf(networks []vmspec.Network, own netip.Addr, lease func(tap string) netip.Addr) status.Cards {
	cards := make(status.Cards, 0, len(networks))
	for _, n := range networks {
		c := status.Card{MAC: macText(n.MAC)}
		switch n.Type {
		case vmspec.NetworkTap:
			c.Neighbor = true
			if n.Lease != nil {
				if guest, err := netip.ParsePrefix(n.Lease.Address); err == nil {
					c.Addresses = append(c.Addresses, status.Address{
						Address: guest.Addr().String(), From: status.FromNetwork, Source: status.SourceLease,
					})
				}
			}
		case vmspec.NetworkMasquerade:
			c.Addresses = forwardedAddresses(n.Ports, "", own)
			if n.AllPorts != nil && own.IsValid() {
				c.Addresses = append(c.Addresses, status.Address{
					Address: own.String(), From: status.FromNetwork, Source: status.SourceConfiguration,
				})
			}
			if guest := lease(n.Ifname); guest.IsValid() {
				c.Addresses = append(c.Addresses, status.Address{
					Address: guest.String(), From: status.FromHost, Source: status.SourceDHCP,
				})
			}
		case vmspec.NetworkUser, vmspec.NetworkPasst:
			c.Addresses = forwardedAddresses(n.Ports, "127.0.0.1", own)
		}
		cards = append(cards, c)
	}
	return cards
}

// forwardedAddresses returns the addresses of the host with ports that lead to the guest. otherwise is the address of
// ports without an address; empty means all addresses.
func forwardedAddresses(ports []vmspec.PortForward, otherwise string, own netip.Addr) (all []status.Address) {
	for _, p := range ports {
		address, err := netip.ParseAddr(cmp.Or(p.Address, otherwise))
		if err != nil || address.IsUnspecified() {
			address = own
		}
		if !address.IsValid() {
			address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		from := status.FromNetwork
		if address.IsLoopback() {
			from = status.FromHost
		}
		all = append(all, status.Address{
			Address: address.String(), From: from, Source: status.SourceConfiguration,
			Ports: []status.AddressPort{{Protocol: p.Protocol, Port: p.Host, Guest: p.Guest}},
		})
	}
	return all
}
