package prepare

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmspec"
)

// For each kind of network, a card lists the guest's addresses and ports.
func TestCards(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddr("192.0.2.9")
	ssh := vmspec.PortForward{Protocol: "tcp", Host: 2222, Guest: 22}
	open := vmspec.PortForward{Protocol: "udp", Address: "0.0.0.0", Host: 53, Guest: 5353}
	inner := vmspec.PortForward{Protocol: "tcp", Address: "192.168.7.1", Host: 80, Guest: 80}
	const at127 = `{"address": "127.0.0.1", "ports": [{"protocol": "tcp", "port": 2222, "guest": 22}],
		"from": "Host", "source": "Configuration"}`
	const at192 = `{"address": "192.0.2.9", "ports": [{"protocol": "udp", "port": 53, "guest": 5353}],
		"from": "Network", "source": "Configuration"}`
	const lease = `{"address": "10.77.0.2", "from": "Host", "source": "DHCP"}`
	for name, c := range map[string]struct {
		network vmspec.Network
		own     netip.Addr
		want    string
	}{
		"a tap": {network: vmspec.Network{Type: vmspec.NetworkTap}, want: `[]`},
		"user": {
			vmspec.Network{Type: vmspec.NetworkUser, Ports: []vmspec.PortForward{ssh, open}},
			own,
			`[` + at127 + `,` + at192 + `]`,
		},
		"user without a way out": {
			network: vmspec.Network{Type: vmspec.NetworkUser, Ports: []vmspec.PortForward{open}},
			want: `[{"address": "127.0.0.1", "ports": [{"protocol": "udp", "port": 53, "guest": 5353}],
				"from": "Host", "source": "Configuration"}]`,
		},
		"masquerade": {
			vmspec.Network{Type: vmspec.NetworkMasquerade, Ifname: "tap7", Ports: []vmspec.PortForward{inner}},
			own,
			`[{"address": "192.168.7.1", "ports": [{"protocol": "tcp", "port": 80, "guest": 80}],
				"from": "Network", "source": "Configuration"},` + lease + `]`,
		},
		"all ports": {
			vmspec.Network{Type: vmspec.NetworkMasquerade, Ifname: "tap7", AllPorts: &vmspec.AllPorts{}},
			own,
			`[{"address": "192.0.2.9", "from": "Network", "source": "Configuration"},` + lease + `]`,
		},
		"all ports without a way out": {
			network: vmspec.Network{Type: vmspec.NetworkMasquerade, Ifname: "tap7", AllPorts: &vmspec.AllPorts{}},
			want:    `[` + lease + `]`,
		},
	} {
		c.network.MAC = "52:54:00:00:00:0A"
		cards := cardsOf([]vmspec.Network{c.network}, c.own, func(tap string) netip.Addr {
			require.Equal(t, "tap7", tap)
			return netip.MustParseAddr("10.77.0.2")
		})
		require.Len(t, cards, 1)
		require.Equal(t, "52:54:00:00:00:0a", cards[0].MAC, "as agents write it")
		require.Equal(t, c.network.Type == vmspec.NetworkTap, cards[0].Neighbor)
		text, err := json.Marshal(append([]status.Address{}, cards[0].Addresses...))
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(text), name)
	}
}

// Ports are the wanted ports. Other changes need a restart.
func TestCardsOfARunningMachine(t *testing.T) {
	t.Parallel()
	of := func(kind vmspec.NetworkType, port int) *VM {
		ports := []vmspec.PortForward{{Protocol: "tcp", Address: "127.0.0.1", Host: port, Guest: 22}}
		return &VM{Spec: vmspec.Spec{Network: []vmspec.Network{{Type: kind, Ports: ports, MAC: "52:54:00:00:00:01"}}}}
	}
	running := of(vmspec.NetworkUser, 2222)
	endpoint := func(wanted *VM) string { return wanted.Cards(running, Addresses{})[0].Addresses[0].Endpoint() }
	require.Equal(t, "127.0.0.1:2200", endpoint(of(vmspec.NetworkUser, 2200)))
	require.Equal(t, "127.0.0.1:2222", endpoint(of(vmspec.NetworkMasquerade, 2200)))
}
