package netsetup

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
)

func testLease() lease {
	return lease{
		mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}, guest: netip.MustParsePrefix("10.0.2.2/24"),
		server:  netip.MustParseAddr("10.0.2.1"),
		gateway: netip.MustParseAddr("10.0.2.1"), dns: []netip.Addr{netip.MustParseAddr("192.0.2.53")},
		search: []string{"ns.svc.cluster.local", "cluster.local"}, mtu: 1450, hostname: "guest",
	}
}

func TestLeaseAnswers(t *testing.T) {
	t.Parallel()
	const (
		broadcast = "255.255.255.255:68"
		unicast   = "10.0.2.2:68"
		silence   = dhcpv4.MessageTypeNone
	)
	from := func(s string) dhcpv4.Modifier { return dhcpv4.WithClientIP(net.ParseIP(s)) }
	wanting := func(s string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(s)))
	}
	chosen := func(s string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(s)))
	}
	stranger := dhcpv4.WithHwAddr(net.HardwareAddr{2, 0, 0, 0, 0, 9})
	tests := []struct {
		name    string
		kind    dhcpv4.MessageType
		details []dhcpv4.Modifier
		answer  dhcpv4.MessageType
		address string // yiaddr
		to      string
	}{
		{"first word", dhcpv4.MessageTypeDiscover, nil, dhcpv4.MessageTypeOffer, "10.0.2.2", broadcast},
		{
			"taking the offer", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{wanting("10.0.2.2"), chosen("10.0.2.1")},
			dhcpv4.MessageTypeAck, "10.0.2.2", broadcast,
		},
		{
			"taking another's offer", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{wanting("10.0.2.2"), chosen("10.0.2.3")},
			silence, "", "",
		},
		{
			"back after a reboot", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{wanting("10.0.2.2")},
			dhcpv4.MessageTypeAck, "10.0.2.2", broadcast,
		},
		{
			"back from another network", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{wanting("192.168.1.7")},
			dhcpv4.MessageTypeNak, "0.0.0.0", broadcast,
		},
		{
			"renewing", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{from("10.0.2.2")},
			dhcpv4.MessageTypeAck, "10.0.2.2",
			unicast,
		},
		{
			"renewing something else", dhcpv4.MessageTypeRequest,
			[]dhcpv4.Modifier{from("10.0.2.9")},
			dhcpv4.MessageTypeNak, "0.0.0.0", broadcast,
		},
		{"asking for no address at all", dhcpv4.MessageTypeRequest, nil, dhcpv4.MessageTypeNak, "0.0.0.0", broadcast},
		{
			"asking for parameters", dhcpv4.MessageTypeInform,
			[]dhcpv4.Modifier{from("10.0.2.2")},
			dhcpv4.MessageTypeAck,
			"0.0.0.0", unicast,
		},
		{"going away", dhcpv4.MessageTypeRelease, []dhcpv4.Modifier{from("10.0.2.2")}, silence, "", ""},
		{"refusing the address", dhcpv4.MessageTypeDecline, nil, silence, "", ""},
		{"a BOOTP client", dhcpv4.MessageTypeNone, nil, silence, "", ""},
		{"a stranger", dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{stranger}, silence, "", ""},
		{
			"through a relay", dhcpv4.MessageTypeDiscover,
			[]dhcpv4.Modifier{dhcpv4.WithGatewayIP(net.IPv4(10, 0, 2, 9))},
			silence, "", "",
		},
		{"another server's answer", dhcpv4.MessageTypeOffer, []dhcpv4.Modifier{func(d *dhcpv4.DHCPv4) {
			d.OpCode = dhcpv4.OpcodeBootReply
		}}, silence, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			request, err := dhcpv4.New(append([]dhcpv4.Modifier{
				dhcpv4.WithHwAddr(testLease().mac), dhcpv4.WithMessageType(test.kind),
			}, test.details...)...)
			require.NoError(t, err)
			reply, ok, err := testLease().answerRequest(request)
			require.NoError(t, err)
			require.Equal(t, test.answer != silence, ok)
			if !ok {
				return
			}
			require.Equal(t, test.answer, reply.message.MessageType())
			require.Equal(t, test.address, reply.message.YourIPAddr.String())
			require.Equal(t, test.to, reply.to.String())
			require.Equal(t, "10.0.2.1", reply.message.ServerIdentifier().String())
			require.Equal(t, request.TransactionID, reply.message.TransactionID)
		})
	}
}

func TestLeaseTellsTheNetwork(t *testing.T) {
	t.Parallel()
	request, err := dhcpv4.NewDiscovery(testLease().mac, dhcpv4.WithOption(dhcpv4.OptClientIdentifier([]byte("me"))))
	require.NoError(t, err)
	reply, ok, err := testLease().answerRequest(request)
	require.NoError(t, err)
	require.True(t, ok)

	heard, err := dhcpv4.FromBytes(reply.message.ToBytes())
	require.NoError(t, err)
	require.Equal(t, net.CIDRMask(24, 32), heard.SubnetMask())
	require.Equal(t, "10.0.2.1", heard.Router()[0].String())
	require.Equal(t, "192.0.2.53", heard.DNS()[0].String())
	require.Equal(t, "ns.svc.cluster.local", heard.DomainName())
	require.Equal(t, []string{"ns.svc.cluster.local", "cluster.local"}, heard.DomainSearch().Labels)
	require.Equal(t, "guest", heard.HostName())
	require.Equal(t, []byte{1450 >> 8, 1450 & 0xff}, heard.Options.Get(dhcpv4.OptionInterfaceMTU))
	require.Equal(t, 24*time.Hour, heard.IPAddressLeaseTime(0))
	require.Equal(t, []byte("me"), heard.Options.Get(dhcpv4.OptionClientIdentifier))
}

// FuzzDHCP sends anything to the server. The server continues, answers only the guest, offers only the lease, and sends
// messages that another parser understands.
func FuzzDHCP(f *testing.F) {
	seed := func(details ...dhcpv4.Modifier) {
		request, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(testLease().mac)}, details...)...)
		require.NoError(f, err)
		f.Add(request.ToBytes())
	}
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeInform), dhcpv4.WithClientIP(net.IPv4(198, 51, 100, 7)))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithClientIP(net.IPv4(10, 0, 2, 2)))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IPv4(10, 0, 2, 2))))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithGeneric(dhcpv4.OptionClientIdentifier,
		make([]byte, 600)))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover), dhcpv4.WithGeneric(dhcpv4.OptionRelayAgentInformation,
		[]byte{1, 4, 'e', 't', 'h', '0'}))
	seed(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithGeneric(dhcpv4.OptionServerIdentifier,
		[]byte{1}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, datagram []byte) {
		sent := &outbox{}
		server := &dhcpServer{conn: sent, lease: testLease(), logger: slog.New(slog.DiscardHandler)}
		server.handleDatagram(datagram)
		require.LessOrEqual(t, len(sent.datagrams), 1)
		for _, d := range sent.datagrams {
			requireAnswer(t, datagram, d)
		}
	})
}

// requireAnswer checks the server's answer to a request.
func requireAnswer(t *testing.T, datagram []byte, d datagram) {
	t.Helper()
	require.Contains(t, []string{"255.255.255.255:68", "10.0.2.2:68"}, d.to.String())
	request, err := dhcpv4.FromBytes(datagram)
	require.NoError(t, err)
	answer, err := dhcpv4.FromBytes(d.data)
	require.NoError(t, err)
	require.Equal(t, dhcpv4.OpcodeBootReply, answer.OpCode)
	require.Equal(t, testLease().mac, answer.ClientHWAddr)
	require.Equal(t, request.TransactionID, answer.TransactionID)
	require.Equal(t, "10.0.2.1", answer.ServerIdentifier().String())
	require.Contains(t, []string{"0.0.0.0", "10.0.2.2"}, answer.YourIPAddr.String())
	require.LessOrEqual(t, len(d.data), len(datagram)+600, "an answer is no amplifier")
	if answer.MessageType() == dhcpv4.MessageTypeNak {
		require.Equal(t, "0.0.0.0", answer.YourIPAddr.String())
		require.Nil(t, answer.Router())
		require.Equal(t, "255.255.255.255:68", d.to.String())
	}
}

// outbox is a connection that keeps the sent data.
type outbox struct {
	net.PacketConn
	datagrams []datagram
}

type datagram struct {
	data []byte
	to   net.Addr
}

func (o *outbox) WriteTo(data []byte, to net.Addr) (int, error) {
	o.datagrams = append(o.datagrams, datagram{bytes.Clone(data), to})
	return len(data), nil
}
