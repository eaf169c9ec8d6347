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

// An Address is where the guest answers.
type Address struct {
	// Address is an IP address.
	Address string `json:"address"`
	// Interface is the guest's, as its agent calls it; MAC is that of the card.
	Interface string `json:"interface,omitempty"`
	MAC       string `json:"mac,omitempty"`
	// Ports are those that lead to the guest; none: all do.
	Ports []AddressPort `json:"ports,omitempty"`
	// From says from where the guest is reached.
	From Reach `json:"from"`
	// Source says how the address is known.
	Source Source `json:"source"`
}

// Endpoint is the address, with the first of its ports unless all lead to the guest.
func (a Address) Endpoint() string {
	if a.Ports == nil {
		return a.Address
	}
	return net.JoinHostPort(a.Address, strconv.Itoa(a.Ports[0].Port))
}

// An AddressPort is a port at an address of the host that leads to one of the guest.
type AddressPort struct {
	// Protocol is "tcp" or "udp".
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
	// Guest is the guest's port.
	Guest int `json:"guest"`
}

// String returns for example "2222 to 22", "53 to 5353/udp".
func (p AddressPort) String() string {
	text := fmt.Sprintf("%d to %d", p.Port, p.Guest)
	if p.Protocol != "tcp" {
		text += "/" + p.Protocol
	}
	return text
}

// A Reach says from where a guest is reached.
type Reach string

// The reaches, the widest first.
const (
	// FromNetwork: whatever reaches the network of that address.
	FromNetwork Reach = "Network"
	// FromHost: the host alone.
	FromHost Reach = "Host"
	// FromUnknown: the agent says so of an interface that isn't a card of the VM, such as a
	// bridge or a tunnel in the guest.
	FromUnknown Reach = "Unknown"
)

// A Source says how an address is known.
type Source string

// The sources. What an agent says is the guest's word: it may name an address of others.
const (
	SourceConfiguration Source = "Configuration"
	SourceDHCP          Source = "DHCP"  // the runner's server gives the guest this address
	SourceLease         Source = "Lease" // likewise, on a bridge: the one that is to be its own
	SourceAgent         Source = "Agent"
)

// A Card is one of the machine's network cards, and what leads to the guest by it.
type Card struct {
	MAC string
	// Neighbor says that the guest's own addresses are reached, on a network with others.
	Neighbor bool
	// Addresses that are known without the guest.
	Addresses []Address
}

// Cards are those of the machine. From them and the guest's interfaces follow the addresses.
type Cards []Card

// MaxAddresses bounds the addresses of a status; the least useful ones are left out.
const MaxAddresses = 32

func (u Cards) apply(s *Status, _ time.Time) error {
	s.cards = u
	return nil
}

// addressesOf returns where a guest answers, the best address first, each once: those of its
// cards, and those which it says are its own, where these are reached
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
			named(all, i)
		}
		if !neighbors || at >= 0 && !cards[at].Neighbor {
			continue
		}
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			a := prefix.Addr().Unmap()
			own := Address{Address: a.String(), Interface: i.Name, MAC: i.MAC, From: from, Source: SourceAgent}
			if err == nil && a.IsGlobalUnicast() && !slices.ContainsFunc(all, own.same) {
				all = append(all, own)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Address) int { return cmp.Compare(a.rank(), b.rank()) })
	return once(all)
}

// named fills in the name of an interface where addresses are of its card.
func named(all []Address, i Interface) {
	for n := range all {
		if all[n].MAC == i.MAC {
			all[n].Interface = i.Name
		}
	}
}

func (a Address) same(b Address) bool { return a.Address == b.Address }

// rank is less for what serves more: a lease on a bridge, and then from farther away, at all
// ports, by IPv4.
func (a Address) rank() int {
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

// once leaves out addresses that are there already. Ports that lead to several cards by one
// address are put together.
func once(all []Address) []Address {
	var some []Address
	for _, a := range all {
		switch at := slices.IndexFunc(some, a.same); {
		case at < 0 && len(some) < MaxAddresses:
			some = append(some, a)
		case at >= 0 && some[at].Ports != nil && a.Source == SourceConfiguration:
			some[at].Ports = slices.Concat(some[at].Ports, a.Ports)
		}
	}
	return some
}
