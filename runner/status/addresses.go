package status

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// An Address is an address of the guest for its clients.
type Address struct {
	// Address is an IP address.
	Address string `json:"address"`
	// Interface is the guest's interface, as its agent names it. MAC is the MAC address of the card.
	Interface string `json:"interface,omitempty"`
	MAC       string `json:"mac,omitempty"`
	// Ports lists the ports that lead to the guest; nil means all ports.
	Ports []AddressPort `json:"ports,omitempty"`
	// From shows from where the guest can be reached.
	From Reach `json:"from"`
	// Source shows how the address is known.
	Source Source `json:"source"`
}

// Endpoint returns the address. It adds the first port unless all ports lead to the guest.
func (a Address) Endpoint() string {
	if a.Ports == nil {
		return a.Address
	}
	return net.JoinHostPort(a.Address, strconv.Itoa(a.Ports[0].Port))
}

// An AddressPort maps a port at an address of the host to a port of the guest.
type AddressPort struct {
	// Protocol is "tcp" or "udp".
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
	// Guest is the guest's port.
	Guest int `json:"guest"`
}

// String returns for example "2222 to 22" or "53 to 5353/udp".
func (p AddressPort) String() string {
	text := fmt.Sprintf("%d to %d", p.Port, p.Guest)
	if p.Protocol != "tcp" {
		text += "/" + p.Protocol
	}
	return text
}

// A Reach is the place from where a guest can be reached.
type Reach string

// The reaches, the widest first.
const (
	// FromNetwork: everything with access to the address's network reaches the guest.
	FromNetwork Reach = "Network"
	// FromHost: only the host reaches the guest.
	FromHost Reach = "Host"
	// FromUnknown: the agent reports the address for an interface that isn't a card of the VM, such as a bridge
	// or a tunnel in the guest.
	FromUnknown Reach = "Unknown"
)

// A Source is the origin of an address.
type Source string

// The sources. The guest controls what its agent reports, and may name an address that belongs to someone else.
const (
	SourceConfiguration Source = "Configuration"
	SourceDHCP          Source = "DHCP"  // the runner's DHCP server gives the guest this address
	SourceLease         Source = "Lease" // same on a bridge: the address reserved for the VM
	SourceAgent         Source = "Agent"
)

// A Card is one of the machine's network cards, with the addresses that lead to the guest through it.
type Card struct {
	MAC string
	// Neighbor reports whether the card is on a network with others, where the guest's own addresses can be
	// reached.
	Neighbor bool
	// Addresses are known without asking the guest.
	Addresses []Address
}

// Cards are the machine's network cards. The addresses are computed from them and the guest's interfaces.
type Cards []Card

// MaxAddresses bounds the addresses in a status; the least useful addresses are left out.
const MaxAddresses = 32

func (u Cards) applyTo(s *Status, _ time.Time) error {
	s.cards = u
	return nil
}

// addressesOf returns the addresses where a guest can be reached, the best first and without duplicates. They are
// the addresses of its cards, and the addresses that the guest reports, where these are reachable
// (docs/decisions/0073-addresses.md).
func addressesOf(cards Cards, said []Interface) []Address {
	var all []Address
	neighbors := false
	for _, c := range cards {
		neighbors = neighbors || c.Neighbor
		for _, a := range c.Addresses {
			a.MAC = c.MAC
			all = append(all, a)
		}
	}
	for _, i := range said {
		at := slices.IndexFunc(cards, func(c Card) bool { return c.MAC != "" && c.MAC == i.MAC })
		from := FromUnknown
		if at >= 0 {
			from = FromNetwork
			fillNames(all, i)
		}
		if !neighbors || at >= 0 && !cards[at].Neighbor {
			continue
		}
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			a := prefix.Addr().Unmap()
			own := Address{Address: a.String(), Interface: i.Name, MAC: i.MAC, From: from, Source: SourceAgent}
			if err == nil && a.IsGlobalUnicast() && !slices.ContainsFunc(all, own.isSameAs) {
				all = append(all, own)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Address) int { return cmp.Compare(a.rankOf(), b.rankOf()) })
	return uniqueAddresses(all)
}

// fillNames sets the interface name of the addresses that belong to the interface's card.
func fillNames(all []Address, i Interface) {
	for n := range all {
		if all[n].MAC == i.MAC {
			all[n].Interface = i.Name
		}
	}
}

func (a Address) isSameAs(b Address) bool { return a.Address == b.Address }

// rankOf is lower for a more useful address: a lease on a bridge first, then a wider reach, then all ports, then
// IPv4.
func (a Address) rankOf() int {
	if a.Source == SourceLease {
		return -1
	}
	rank := 4 * slices.Index([]Reach{FromNetwork, FromHost, FromUnknown}, a.From)
	if a.Ports != nil {
		rank += 2
	}
	if address, err := netip.ParseAddr(a.Address); err == nil && address.Is6() {
		rank++
	}
	return rank
}

// uniqueAddresses removes duplicate addresses. It merges the ports when one address leads to several cards.
func uniqueAddresses(all []Address) []Address {
	var some []Address
	for _, a := range all {
		switch at := slices.IndexFunc(some, a.isSameAs); {
		case at < 0 && len(some) < MaxAddresses:
			some = append(some, a)
		case at >= 0 && some[at].Ports != nil && a.Source == SourceConfiguration:
			some[at].Ports = slices.Concat(some[at].Ports, a.Ports)
		}
	}
	return some
}
