package status

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	const bridged, hidden, other = "52:54:00:00:00:01", "52:54:00:00:00:02", "02:42:00:00:00:03"
	at := func(address string, from Reach, source Source, ports ...AddressPort) Address {
		return Address{Address: address, From: from, Source: source, Ports: ports}
	}
	ssh, web := AddressPort{"tcp", 2222, 22}, AddressPort{"tcp", 80, 8080}
	tap := Card{MAC: bridged, Neighbor: true}
	masquerade := Card{MAC: hidden, Addresses: []Address{at("10.77.0.2", FromHost, SourceDHCP)}}
	said := func(name, mac string, addresses ...string) Interface { return Interface{name, mac, addresses} }
	for name, c := range map[string]struct {
		cards Cards
		said  []Interface
		want  []string
	}{
		"nothing":                            {},
		"a tap without an agent is anywhere": {cards: Cards{tap}},
		"a tap": {
			Cards{tap},
			[]Interface{
				said("docker0", other, "172.17.0.1/16"),
				said("eth0", bridged, "fe80::1/64", "169.254.1.1/16", "fd00::7/64", "192.168.7.7/24", "nonsense"),
				said("lo", "", "127.0.0.1/8"),
			},
			[]string{
				"192.168.7.7 eth0 Network Agent []", "fd00::7 eth0 Network Agent []",
				"172.17.0.1 docker0 Unknown Agent []",
			},
		},
		"a mapped address is one of IPv4": {
			Cards{tap},
			[]Interface{said("eth0", bridged, "::ffff:192.168.7.7/120")},
			[]string{"192.168.7.7 eth0 Network Agent []"},
		},
		"a masquerade: its guest can have no other address": {
			Cards{masquerade},
			[]Interface{said("eth0", hidden, "10.77.0.2/24", "8.8.8.8/24"), said("wg0", "", "10.9.9.9/24")},
			[]string{"10.77.0.2 eth0 Host DHCP []"},
		},
		"ports": {
			Cards{{Addresses: []Address{
				at("127.0.0.1", FromHost, SourceConfiguration, ssh),
				at("192.0.2.9", FromNetwork, SourceConfiguration, web),
				at("127.0.0.1", FromHost, SourceConfiguration, web),
			}}},
			[]Interface{said("eth0", hidden, "10.0.2.15/24")},
			[]string{
				"192.0.2.9  Network Configuration [80 to 8080]", "127.0.0.1  Host Configuration [2222 to 22 80 to 8080]",
			},
		},
		"all ports include some": {
			Cards{{Addresses: []Address{
				at("192.0.2.9", FromNetwork, SourceConfiguration, web),
				at("192.0.2.9", FromNetwork, SourceConfiguration),
			}}},
			nil,
			[]string{"192.0.2.9  Network Configuration []"},
		},
		"a guest's own address serves more than ports; it does not replace one of the host": {
			Cards{{Addresses: []Address{at("192.0.2.9", FromNetwork, SourceConfiguration, web)}}, tap},
			[]Interface{said("eth1", bridged, "192.0.2.9/24", "192.0.2.77/24")},
			[]string{"192.0.2.77 eth1 Network Agent []", "192.0.2.9  Network Configuration [80 to 8080]"},
		},
	} {
		s := life(t, c.cards, Interfaces(c.said))
		var have []string
		for _, a := range s.Addresses {
			have = append(have, fmt.Sprint(a.Address, " ", a.Interface, " ", a.From, " ", a.Source, " ", a.Ports))
		}
		require.Equal(t, c.want, have, name)
	}
}

// Ports of several cards with the same address are merged, wherever the address stands in the list.
func TestPortsOfOneAddress(t *testing.T) {
	t.Parallel()
	ssh, web := AddressPort{"tcp", 2222, 22}, AddressPort{"tcp", 80, 8080}
	at := func(address string, ports ...AddressPort) Address {
		return Address{Address: address, Source: SourceConfiguration, Ports: ports}
	}
	require.Equal(t, []Address{at("192.0.2.9", ssh, web), at("192.0.2.10", ssh, web)},
		uniqueAddresses([]Address{
			at("192.0.2.9", ssh), at("192.0.2.10", ssh), at("192.0.2.9", web),
			at("192.0.2.10", web),
		}))
}

func TestAddressesAreBounded(t *testing.T) {
	t.Parallel()
	i := Interface{Name: "eth0", MAC: "52:54:00:00:00:01"}
	for n := range 3 * MaxAddresses {
		i.Addresses = append(i.Addresses, fmt.Sprintf("fd00::%x/64", n))
	}
	i.Addresses = append(i.Addresses, "192.168.7.7/24")
	s := life(t, Cards{{MAC: i.MAC, Neighbor: true}}, Interfaces{i}, Entered{State: vmstatus.StateBooted})
	require.Len(t, s.Addresses, MaxAddresses)
	require.Equal(t, "192.168.7.7", s.Addresses[0].Endpoint())
	require.Empty(t, life(t, Cards{{MAC: i.MAC, Neighbor: true}}, Interfaces{i}, Ended{}).Addresses)
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[::1]:53", Address{Address: "::1", Ports: []AddressPort{{"udp", 53, 5353}}}.Endpoint())
	require.Equal(t, "53 to 5353/udp", AddressPort{"udp", 53, 5353}.String())
}
