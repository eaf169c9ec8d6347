package netsetup_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/mdlayher/packet"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
	"vmop/test/wait"
)

var (
	guestMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	otherMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 9}
	everyone  = net.HardwareAddr{255, 255, 255, 255, 255, 255}
	guestIP   = netip.MustParseAddr("10.66.10.14")
	otherIP   = netip.MustParseAddr("10.66.10.99")
	gatewayIP = netip.MustParseAddr("10.66.10.1")
	noIP      = netip.IPv4Unspecified()
)

func leased(filter bool) *netsetup.Lease {
	return &netsetup.Lease{
		MAC: guestMAC, Address: netip.PrefixFrom(guestIP, 24), Gateway: gatewayIP, Filter: filter,
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}, Search: []string{"example.org"}, Hostname: "web",
		Routes: []netsetup.Route{{To: netip.MustParsePrefix("10.7.0.0/16"), Via: netip.MustParseAddr("10.66.10.2")}},
	}
}

func frame(to, from net.HardwareAddr, kind uint16, payload []byte) []byte {
	return slices.Concat(to, from, binary.BigEndian.AppendUint16(nil, kind), payload)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return ^uint16(sum + sum>>16)
}

// datagram returns a UDP datagram without a checksum.
func datagram(from, to netip.Addr, fromPort, toPort uint16, payload []byte) []byte {
	b := []byte{0x45, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(28+len(payload)))
	b = append(b, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0)
	b = slices.Concat(b, from.AsSlice(), to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	b = binary.BigEndian.AppendUint16(b, fromPort)
	b = binary.BigEndian.AppendUint16(b, toPort)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	return append(append(b, 0, 0), payload...)
}

func arp(operation byte, mac net.HardwareAddr, sender, target netip.Addr) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, operation}, mac, sender.AsSlice(), make([]byte, 6),
		target.AsSlice())
}

// lan is a bridge with a guest's tap and a neighbor's link.
type lan struct {
	t        *testing.T
	bridge   *netlink.Bridge
	tap      *os.File
	neighbor *packet.Conn
	guest    chan []byte // frames that arrive at the guest
}

func newLAN(t *testing.T, l *netsetup.Lease) *lan {
	t.Helper()
	return newLANOf(t, netsetup.TapConfig{Lease: l})
}

func newLANOf(t *testing.T, cfg netsetup.TapConfig) *lan {
	t.Helper()
	cfg.Name, cfg.Bridge, cfg.Owner = "vm0", "br0", "one"
	here := newPlace(t)
	bridge := newBridge(t, "br0", 1500)
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port", MasterIndex: bridge.Index}, PeerName: "plug"}
	require.NoError(t, netlink.LinkAdd(cable))
	require.NoError(t, netlink.LinkSetUp(cable))
	plug, err := net.InterfaceByName("plug")
	require.NoError(t, err)
	link, err := netlink.LinkByName("plug")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(link))
	neighbor, err := packet.Listen(plug, packet.Raw, unix.ETH_P_ALL, nil)
	require.NoError(t, err)
	tap, err := openTap(cfg)
	require.NoError(t, err)
	n := &lan{t, bridge, tap.Files()[0], neighbor, make(chan []byte, 4096)}
	reader := duplicateSocket(t, n.tap)
	go func() {
		for buffer := make([]byte, 9000); ; {
			size, err := reader.Read(buffer)
			if err != nil {
				return
			}
			n.guest <- slices.Clone(buffer[10:size]) // without the virtio-net header
		}
	}()
	t.Cleanup(func() {
		here.enter()
		require.NoError(t, neighbor.Close())
		require.NoError(t, tap.Close())
		link, err := netlink.LinkByName("vm0")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkDel(link)) // ends the reader
		_ = reader.Close()
	})
	n.connected()
	return n
}

// connected waits until the bridge forwards, which takes a moment after adding a port.
func (n *lan) connected() {
	n.t.Helper()
	first := frame(everyone, guestMAC, unix.ETH_P_ARP, arp(1, guestMAC, noIP, guestIP))
	buffer := make([]byte, 9000)
	for late := wait.Deadline(); time.Now().Before(late); {
		n.fromGuest(first)
		require.NoError(n.t, n.neighbor.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		if size, _, err := n.neighbor.ReadFrom(buffer); err == nil && slices.Equal(buffer[:size], first) {
			return
		}
	}
	require.FailNow(n.t, "the bridge doesn't forward")
}

// fromGuest sends a frame from the guest.
func (n *lan) fromGuest(frame []byte) {
	n.t.Helper()
	_, err := n.tap.Write(append(make([]byte, 10), frame...))
	require.NoError(n.t, err)
}

func (n *lan) fromNeighbor(frame []byte) {
	n.t.Helper()
	_, err := n.neighbor.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]})
	require.NoError(n.t, err)
}

// leaves reports whether a frame from the guest reaches the neighbor. To avoid waiting for a dropped frame, it then
// sends a frame that always passes.
func (n *lan) leaves(sent []byte) bool {
	n.t.Helper()
	n.fromGuest(sent)
	last := frame(everyone, guestMAC, unix.ETH_P_ARP, arp(1, guestMAC, guestIP, otherIP))
	n.fromGuest(last)
	require.NoError(n.t, n.neighbor.SetReadDeadline(wait.Deadline()))
	came := false
	if binary.BigEndian.Uint16(sent[12:]) == unix.ETH_P_8021Q { // the socket removes the VLAN tag
		sent = slices.Concat(sent[:12], sent[16:])
	}
	for buffer := make([]byte, 9000); ; {
		size, _, err := n.neighbor.ReadFrom(buffer)
		require.NoError(n.t, err)
		switch got := buffer[:size]; {
		case size >= len(sent) && slices.Equal(got[:len(sent)], sent):
			came = true
		case size >= len(last) && slices.Equal(got[:len(last)], last):
			return came
		}
	}
}

// enters reports whether a frame from the neighbor reaches the guest.
func (n *lan) enters(sent []byte) (came bool) {
	n.t.Helper()
	n.fromNeighbor(sent)
	last := frame(everyone, otherMAC, unix.ETH_P_ARP, arp(1, otherMAC, otherIP, guestIP))
	n.fromNeighbor(last)
	for {
		switch got := n.next(); {
		case slices.Equal(got, last):
			return came
		case slices.Equal(got, sent):
			came = true
		}
	}
}

// next returns the next frame that arrives at the guest.
func (n *lan) next() []byte {
	n.t.Helper()
	return wait.Receive(n.t, n.guest, "nothing arrives at the guest")
}

// With a filter only frames from the lease's address reach the bridge.
func TestFilterOfATap(t *testing.T) {
	t.Parallel()
	v6 := slices.Concat([]byte{0x60, 0, 0, 0, 0, 24, 58, 255}, make([]byte, 15), []byte{9}, make([]byte, 15), []byte{1},
		[]byte{136, 0, 0, 0, 0x60, 0, 0, 0}, make([]byte, 15), []byte{9}) // a neighbor advertisement
	tagged := func(payload []byte) []byte { return slices.Concat([]byte{0, 7, 8, 0}, payload) }
	hello := func(from netip.Addr) []byte { return datagram(from, gatewayIP, 1000, 1000, []byte("hello")) }
	for _, c := range []struct {
		name             string
		frame            []byte
		filtered, always bool
	}{
		{"own IPv4", frame(everyone, guestMAC, unix.ETH_P_IP, hello(guestIP)), true, true},
		{"own ARP", frame(everyone, guestMAC, unix.ETH_P_ARP, arp(2, guestMAC, guestIP, gatewayIP)), true, true},
		{"probe", frame(everyone, guestMAC, unix.ETH_P_ARP, arp(1, guestMAC, noIP, otherIP)), true, true},
		{"IPv4 of another", frame(everyone, guestMAC, unix.ETH_P_IP, hello(otherIP)), false, true},
		{"no IPv4", frame(everyone, guestMAC, unix.ETH_P_IP, hello(noIP)), false, true},
		{"ARP of another", frame(everyone, guestMAC, unix.ETH_P_ARP, arp(2, guestMAC, otherIP, noIP)), false, true},
		{"ARP for another", frame(everyone, guestMAC, unix.ETH_P_ARP, arp(2, otherMAC, guestIP, noIP)), false, true},
		{"another card", frame(everyone, otherMAC, unix.ETH_P_IP, hello(guestIP)), false, true},
		{"ND", frame(everyone, guestMAC, unix.ETH_P_IPV6, v6), false, true},
		{"in a VLAN", frame(everyone, guestMAC, unix.ETH_P_8021Q, tagged(hello(otherIP))), false, true},
		{"own in a VLAN", frame(everyone, guestMAC, unix.ETH_P_8021Q, tagged(hello(guestIP))), false, true},
		{"unknown", frame(everyone, guestMAC, 0x88b5, []byte("hello")), false, true},
		{
			"a DHCP server in the guest",
			frame(everyone, guestMAC, unix.ETH_P_IP, datagram(guestIP, otherIP, 67, 68, []byte("hello"))), false, true,
		},
		{
			"a DHCP request",
			frame(everyone, guestMAC, unix.ETH_P_IP, datagram(noIP, otherIP, 68, 67, []byte("hello"))), false, false,
		},
	} {
		for filter, want := range map[bool]bool{true: c.filtered, false: c.always} {
			name := c.name
			if !filter {
				name += ", no filter"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				require.Equal(t, want, newLAN(t, leased(filter)).leaves(c.frame))
			})
		}
	}
}

// packet6 returns an IPv6 packet from a router's address, with a hop-by-hop header before the payload.
func packet6(next byte, payload []byte) []byte {
	header := []byte{0x60, 0, 0, 0, 0, byte(8 + len(payload)), 0, 255, 0xfe, 0x80}
	return slices.Concat(header, make([]byte, 13), []byte{9, 0xff, 2}, make([]byte, 13), []byte{1},
		[]byte{next, 0, 1, 4, 0, 0, 0, 0}, payload)
}

// A guest without a lease must use its card's MAC address. It may use any IP address, but it can't act as a DHCP server
// or router.
func TestACardWithoutALeaseKeepsItsAddress(t *testing.T) {
	t.Parallel()
	tagged := func(kind uint16, payload []byte) []byte {
		return slices.Concat([]byte{0, 7}, binary.BigEndian.AppendUint16(nil, kind), payload)
	}
	hello := datagram(otherIP, gatewayIP, 1000, 1000, []byte("hello"))
	offer := datagram(guestIP, otherIP, 67, 68, []byte("hello"))
	offer6 := packet6(unix.IPPROTO_UDP, []byte{547 >> 8, 547 & 0xff, 546 >> 8, 546 & 0xff, 0, 8, 0, 0})
	icmp6 := func(kind byte) []byte {
		return packet6(unix.IPPROTO_ICMPV6, append([]byte{kind, 0, 0, 0}, make([]byte, 36)...))
	}
	for name, c := range map[string]struct {
		frame []byte
		want  bool
	}{
		"any IPv4":            {frame(everyone, guestMAC, unix.ETH_P_IP, hello), true},
		"any IPv6":            {frame(everyone, guestMAC, unix.ETH_P_IPV6, icmp6(136)), true},
		"a router's question": {frame(everyone, guestMAC, unix.ETH_P_IPV6, icmp6(133)), true},
		"ARP":                 {frame(everyone, guestMAC, unix.ETH_P_ARP, arp(2, guestMAC, otherIP, gatewayIP)), true},
		"a DHCP request":      {frame(everyone, guestMAC, unix.ETH_P_IP, datagram(noIP, otherIP, 68, 67, nil)), true},
		"in a VLAN":           {frame(everyone, guestMAC, unix.ETH_P_8021Q, tagged(unix.ETH_P_IP, hello)), true},
		"unknown":             {frame(everyone, guestMAC, 0x88b5, []byte("hello")), true},
		"another card":        {frame(everyone, otherMAC, unix.ETH_P_IP, hello), false},
		"another card, VLAN":  {frame(everyone, otherMAC, unix.ETH_P_8021Q, tagged(2048, hello)), false},
		"ARP of another card": {frame(everyone, guestMAC, unix.ETH_P_ARP, arp(2, otherMAC, otherIP, noIP)), false},
		"a DHCP server":       {frame(everyone, guestMAC, unix.ETH_P_IP, offer), false},
		"a DHCP server, VLAN": {frame(everyone, guestMAC, unix.ETH_P_8021Q, tagged(unix.ETH_P_IP, offer)), false},
		"a DHCPv6 server":     {frame(everyone, guestMAC, unix.ETH_P_IPV6, offer6), false},
		"a router":            {frame(everyone, guestMAC, unix.ETH_P_IPV6, icmp6(134)), false},
		"a router in a VLAN":  {frame(everyone, guestMAC, unix.ETH_P_8021Q, tagged(0x86dd, icmp6(134))), false},
		"a redirect":          {frame(everyone, guestMAC, unix.ETH_P_IPV6, icmp6(137)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, newLANOf(t, netsetup.TapConfig{MAC: guestMAC}).leaves(c.frame))
			require.True(t, newLANOf(t, netsetup.TapConfig{}).leaves(c.frame), "without rules")
		})
	}
}

// The guest never receives answers from DHCP servers, and with a filter it receives no IPv6.
func TestWhatEntersATap(t *testing.T) {
	t.Parallel()
	answer := frame(everyone, otherMAC, unix.ETH_P_IP, datagram(otherIP, netip.AddrFrom4([4]byte{255, 255, 255, 255}),
		67, 68, []byte("hello")))
	v6 := frame(everyone, otherMAC, unix.ETH_P_IPV6, append([]byte{0x60, 0, 0, 0, 0, 0, 59, 255}, make([]byte, 32)...))
	v4 := frame(everyone, otherMAC, unix.ETH_P_IP, datagram(otherIP, guestIP, 68, 67, []byte("hello")))
	for filter, want := range map[*netsetup.Lease][]bool{
		leased(true): {false, false, true}, leased(false): {false, true, true}, nil: {true, true, true},
	} {
		n := newLAN(t, filter)
		require.Equal(t, want, []bool{n.enters(answer), n.enters(v6), n.enters(v4)})
	}
}

// The filter stops frames early enough that the bridge does not learn the sender's address from them.
func TestFilterKeepsTheBridgeFromLearning(t *testing.T) {
	t.Parallel()
	for filter, want := range map[bool]bool{true: false, false: true} {
		n := newLAN(t, leased(filter))
		nearest := net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0x0e}
		n.leaves(frame(nearest, otherMAC, 0x88cc, []byte("hello"))) // LLDP
		known, err := netlink.NeighList(0, unix.AF_BRIDGE)
		require.NoError(t, err)
		require.Equal(t, want, slices.ContainsFunc(known, func(k netlink.Neigh) bool {
			return k.HardwareAddr.String() == otherMAC.String()
		}))
	}
}

// The tap answers its guest's DHCP requests and ignores other cards' requests.
func TestDHCPOnATap(t *testing.T) {
	t.Parallel()
	for _, filter := range []bool{true, false} {
		n := newLAN(t, leased(filter))
		send := func(to, mac net.HardwareAddr, from, server netip.Addr, details ...dhcpv4.Modifier) {
			t.Helper()
			request, err := dhcpv4.New(append(details, dhcpv4.WithHwAddr(mac))...)
			require.NoError(t, err)
			n.fromGuest(frame(to, guestMAC, unix.ETH_P_IP, datagram(from, server, 68, 67, request.ToBytes())))
		}
		answer := func() (to netip.Addr, message *dhcpv4.DHCPv4) {
			t.Helper()
			got := n.next()
			for binary.BigEndian.Uint16(got[12:]) != unix.ETH_P_IP || got[14+9] != unix.IPPROTO_UDP {
				got = n.next()
			}
			require.Equal(t, guestMAC, net.HardwareAddr(got[:6]))
			require.Zero(t, checksum(got[14:34]), "the checksum of the IP header")
			require.Equal(t, gatewayIP.AsSlice(), got[26:30])
			message, err := dhcpv4.FromBytes(got[42:])
			require.NoError(t, err)
			to, _ = netip.AddrFromSlice(got[30:34])
			return to, message
		}
		broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
		discover := dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover)
		send(everyone, otherMAC, noIP, broadcast, discover)
		send(everyone, guestMAC, noIP, broadcast, discover)
		to, offer := answer()
		require.Equal(t, broadcast, to)
		require.Equal(t, guestMAC, offer.ClientHWAddr, "the other card got no answer")
		require.Equal(t, dhcpv4.MessageTypeOffer, offer.MessageType())
		require.Equal(t, "10.66.10.14", offer.YourIPAddr.String())
		require.Equal(t, "10.66.10.1", offer.ServerIdentifier().String())
		require.Equal(t, "[10.66.10.1]", fmt.Sprint(offer.Router()))
		require.Equal(t, "[192.0.2.53]", fmt.Sprint(offer.DNS()))
		require.Equal(t, []string{"example.org"}, offer.DomainSearch().Labels)
		require.Equal(t, "web", offer.HostName())
		require.Equal(t, 24*time.Hour, offer.IPAddressLeaseTime(0))
		require.Equal(t, "[route to 0.0.0.0/0 via 10.66.10.1 route to 10.7.0.0/16 via 10.66.10.2]",
			fmt.Sprint(offer.ClasslessStaticRoute()))

		// A renewal goes to the gateway, which is elsewhere on the bridge.
		request := dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest)
		send(otherMAC, guestMAC, guestIP, gatewayIP, request, dhcpv4.WithClientIP(guestIP.AsSlice()))
		to, ack := answer()
		require.Equal(t, guestIP, to)
		require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())

		// An address from another server is not confirmed.
		send(everyone, guestMAC, noIP, broadcast, request,
			dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(otherIP.AsSlice())))
		_, nak := answer()
		require.Equal(t, dhcpv4.MessageTypeNak, nak.MessageType())

		// The server keeps running after the interface was down.
		link, err := netlink.LinkByName("vm0")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetDown(link))
		require.NoError(t, netlink.LinkSetUp(link))
		send(everyone, guestMAC, noIP, broadcast, discover)
		_, offer = answer()
		require.Equal(t, dhcpv4.MessageTypeOffer, offer.MessageType())
	}
}

// Rules and requests belong to one tap, and closing it removes everything.
func TestLeaseLeavesNothing(t *testing.T) {
	t.Parallel()
	newPlace(t)
	newBridge(t, "br0", 1500)
	before := everything(t)
	cfg := netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one", Lease: leased(true)}
	tap, err := openTap(cfg)
	require.NoError(t, err)
	other, err := openTap(netsetup.TapConfig{Name: "vm1", Bridge: "br0", Owner: "two", Lease: leased(true)})
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(rules(t), "table "), "two for each tap")
	qemus, inherited := duplicateSocket(t, tap.Files()[0]), duplicateSocket(t, tap.Inherit()[0])
	again, err := adoptTap(cfg)
	require.NoError(t, err, "the rules are QEMU's")
	require.NoError(t, again.Close())
	require.Equal(t, 4, strings.Count(rules(t), "table "))
	require.NoError(t, tap.Close())
	require.Equal(t, 2, strings.Count(rules(t), "table "))
	require.NoError(t, inherited.Close())

	// Adoption works when the earlier runner had no lease, or when the rules are missing.
	again, err = adoptTap(cfg)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(rules(t), "table "))
	require.NoError(t, again.Close())
	require.NoError(t, qemus.Close())
	require.NoError(t, other.Close())
	restored(t, before)
}

// Without permission for packet sockets, opening a tap with a lease fails and leaves no tap.
func TestLeaseWithoutRights(t *testing.T) {
	t.Parallel()
	newPlace(t)
	newBridge(t, "br0", 1500)
	before := everything(t)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets, less [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &sets[0]))
	less = sets
	less[0].Effective &^= 1 << unix.CAP_NET_RAW
	require.NoError(t, unix.Capset(&header, &less[0]))
	_, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Lease: leased(true)})
	require.NoError(t, unix.Capset(&header, &sets[0]))
	require.Equal(t, netsetup.NoRight, netsetup.FaultOf(err))
	require.ErrorContains(t, err, "CAP_NET_RAW")
	restored(t, before)
}
