package loopback

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// sockaddr returns an address in the form that a process passes to the kernel.
func sockaddr(family uint16, port uint16, address netip.Addr) []byte {
	text := binary.BigEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, family), port)
	if address.Is6() {
		text = append(text, 0, 0, 0, 0) // the flow label
	}
	return append(append(text, address.AsSlice()...), make([]byte, 8)...)
}

// Loopback addresses are denied in all their forms, and other addresses are allowed.
func TestDestinations(t *testing.T) {
	t.Parallel()
	for address, denied := range map[string]bool{
		"127.0.0.1": true, "127.86.77.1": true, "0.0.0.0": true, "::1": true, "::": true, "::ffff:127.0.0.2": true,
		"::ffff:0.0.0.0": true, "10.0.2.2": false, "192.0.2.1": false, "fec0::2": false, "2001:db8::1": false,
		"::ffff:192.0.2.1": false, "128.0.0.1": false, "126.255.255.255": false,
	} {
		want, family := netip.MustParseAddr(address), uint16(familyIPv4)
		if want.Is6() {
			family = familyIPv6
		}
		to, ok := destinationOf(sockaddr(family, 443, want))
		require.True(t, ok, address)
		require.Equal(t, netip.AddrPortFrom(want, 443), to)
		require.Equal(t, denied, isLoopbackAddr(to.Addr()), address)
	}
	short := netip.MustParseAddr("127.0.0.1")
	for _, other := range [][]byte{nil, {2, 0}, sockaddr(1, 0, short), sockaddr(familyIPv6, 1, short)} {
		_, ok := destinationOf(other)
		require.False(t, ok, other)
	}
}

// With systemd-resolved, QEMU may forward the guest's DNS queries to a loopback address.
func TestNameServers(t *testing.T) {
	t.Parallel()
	const text = "# nameserver 127.0.0.1\nnameserver 127.0.0.53\nnameserver\nnameserver ::1 \noptions edns0\n"
	require.True(t, listsServer(text, netip.MustParseAddr("127.0.0.53")))
	require.True(t, listsServer(text, netip.MustParseAddr("::1")))
	require.False(t, listsServer(text, netip.MustParseAddr("127.0.0.1")))
	require.False(t, isNameServer(netip.MustParseAddrPort("127.0.0.53:80")), "another port is none")
}
