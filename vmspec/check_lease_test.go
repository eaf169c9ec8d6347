package vmspec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lease returns a valid lease.
func lease() *Lease {
	return &Lease{
		Address: "10.66.10.14/24", Gateway: "10.66.10.1",
		Nameservers: &Nameservers{
			Addresses: []string{"10.66.10.1", "192.0.2.53"}, Search: []string{"vms.example.org", "example"},
		},
		Routes: []Route{{To: "10.7.0.0/16", Via: "10.66.10.2"}, {To: "10.8.0.0/16", Via: "10.66.10.2"}},
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	require.Empty(t, faults(Spec{UUID: someUUID, Network: []Network{
		{Lease: lease()},
		{Lease: lease(), Bridge: "br1", Filter: new(false)}, // the same address on another bridge
		{Lease: &Lease{Address: "192.0.2.1/30"}},
	}}))
	spec := Spec{Network: []Network{{Lease: lease()}, {Lease: lease(), Filter: new(false)}, {}}}.WithDefaults()
	require.True(t, *spec.Network[0].Filter, "there is a filter where there is a lease")
	require.False(t, *spec.Network[1].Filter)
	require.Nil(t, spec.Network[2].Filter)
}

func TestLeaseFaults(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	for _, fault := range []struct {
		change func(l *Lease)
		want   string // without the prefix vm.network[0].lease.
	}{
		{
			func(l *Lease) { *l = Lease{} },
			`address: missing (the guest's address and subnet, such as 10.66.10.14/24)`,
		},
		{
			func(l *Lease) { l.Address = "10.66.10.14" },
			`address: "10.66.10.14" is not an IPv4 address with the length of its subnet (such as 10.66.10.14/24)`,
		},
		{
			func(l *Lease) { l.Address = "fd00::14/64" },
			`address: "fd00::14/64" is not an IPv4 address with the length of its subnet (such as 10.66.10.14/24)`,
		},
		{
			func(l *Lease) { l.Address = "10.66.10.14/31" },
			`address: "10.66.10.14/31" is in a subnet of no sensible size (/8 to /30)`,
		},
		{
			func(l *Lease) { l.Address = "127.0.0.2/8" },
			`address: "127.0.0.2/8" is not an address that a guest can have (such as 10.66.10.14/24)`,
		},
		{
			func(l *Lease) { l.Address = "10.66.10.0/24" },
			`address: "10.66.10.0/24" is the first or last address of its subnet (these stand for the subnet and for everyone in it)`,
		},
		{
			func(l *Lease) { l.Address = "10.66.10.255/24" },
			`address: "10.66.10.255/24" is the first or last address of its subnet (these stand for the subnet and for everyone in it)`,
		},
		{
			func(l *Lease) { l.Gateway = "10.66.11.1" },
			`gateway: "10.66.11.1" is outside of the guest's subnet (a router in 10.66.10.0/24)`,
		},
		{
			func(l *Lease) { l.Gateway = "10.66.10.14" },
			`gateway: "10.66.10.14" is the guest's own address (a router in 10.66.10.0/24)`,
		},
		{
			func(l *Lease) { l.Gateway = "10.66.10.255" },
			`gateway: "10.66.10.255" is the first or last address of the subnet (these stand for the subnet and for everyone in it)`,
		},
		{func(l *Lease) { l.Gateway = "fd00::1" }, `gateway: "fd00::1" is not an IPv4 address (such as 10.66.10.1)`},
		{
			func(l *Lease) { l.Gateway = "10.66.10.1/24" },
			`gateway: "10.66.10.1/24" is not an IPv4 address (such as 10.66.10.1)`,
		},
		{
			func(l *Lease) { l.Nameservers.Addresses[1] = "::1" },
			`nameservers.addresses[1]: "::1" is not the IPv4 address of a name server (such as 10.66.10.1)`,
		},
		{
			func(l *Lease) { l.Nameservers.Addresses = many(9, "192.0.2.%d") },
			`nameservers.addresses: has 9 name servers (the maximum is 8)`,
		},
		{
			func(l *Lease) { l.Nameservers.Search[0] = "a domain" },
			`nameservers.search[0]: "a domain" is not a domain (such as example.org)`,
		},
		{
			func(l *Lease) { l.Nameservers.Search[0] = "-" },
			`nameservers.search[0]: "-" is not a domain (such as example.org)`,
		},
		{
			func(l *Lease) { l.Nameservers.Search = many(7, "d%d") },
			`nameservers.search: has 7 domains of 14 characters (the maximum is 6 domains of 256 characters together)`,
		},
		{
			func(l *Lease) { l.Nameservers.Search = slices.Repeat([]string{strings.Repeat("a", 60)}, 5) },
			`nameservers.search: has 5 domains of 300 characters (the maximum is 6 domains of 256 characters together)`,
		},
		{func(l *Lease) { l.Routes[0].To = "" }, `routes[0].to: missing (a subnet, such as 10.7.0.0/16)`},
		{
			func(l *Lease) { l.Routes[0].To = "default" },
			`routes[0].to: "default" is not an IPv4 subnet (such as 10.7.0.0/16)`,
		},
		{
			func(l *Lease) { l.Routes[0].To = "10.7.0.1/16" },
			`routes[0].to: "10.7.0.1/16" is an address within a subnet (the subnet is 10.7.0.0/16)`,
		},
		{
			func(l *Lease) { l.Routes[0].To = "0.0.0.0/0" },
			`routes[0].to: "0.0.0.0/0" is everything (the router to that is the gateway)`,
		},
		{
			func(l *Lease) { l.Routes[1].To = l.Routes[0].To },
			`routes[1].to: 10.7.0.0/16 has a route (by vm.network[0].lease.routes[0].to)`,
		},
		{func(l *Lease) { l.Routes[1].Via = "" }, `routes[1].via: missing (a router in the guest's subnet)`},
		{
			func(l *Lease) { l.Routes[1].Via = "192.0.2.1" },
			`routes[1].via: "192.0.2.1" is outside of the guest's subnet (a router in 10.66.10.0/24)`,
		},
		{func(l *Lease) { l.Routes = make([]Route, 33) }, `routes: has 33 routes (the maximum is 32)`},
	} {
		l := lease()
		fault.change(l)
		require.Equal(t, []string{"vm.network[0].lease." + fault.want},
			faults(Spec{UUID: someUUID, Network: []Network{{Lease: l}}}))
	}
}

// Check returns all errors of a lease, except for errors that follow from an invalid address.
func TestAllFaultsOfALease(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`vm.network[1].lease.address: "10.66.10.14/240" is not an IPv4 address with the length of its subnet (such as 10.66.10.14/24)`,
		`vm.network[1].lease.gateway: "x" is not an IPv4 address (such as 10.66.10.1)`,
		`vm.network[1].lease.nameservers.addresses[0]: "" is not the IPv4 address of a name server (such as 10.66.10.1)`,
		`vm.network[1].lease.nameservers.search[0]: "" is not a domain (such as example.org)`,
		`vm.network[1].lease.routes[0].to: missing (a subnet, such as 10.7.0.0/16)`,
		`vm.network[3].lease.address: 10.66.10.14 is taken (by vm.network[2].lease.address)`,
	}, faults(Spec{UUID: someUUID, Network: []Network{
		{Filter: new(true)},
		{Lease: &Lease{
			Address: "10.66.10.14/240", Gateway: "x", Routes: []Route{{Via: "10.66.10.1"}},
			Nameservers: &Nameservers{Addresses: []string{""}, Search: []string{""}},
		}},
		{Lease: lease()},
		{Lease: lease()},
	}}))
}
