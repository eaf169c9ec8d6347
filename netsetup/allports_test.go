package netsetup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
	"vmop/test/tier"
	"vmop/test/wait"
)

// A pod's neighbors reach its guest at all ports of the pod's address, except for ports of the runner and existing
// listeners. The pod itself reaches its own services and receives the answers to its requests.
func TestAllPortsAreTheGuests(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	pod, world := newPodAndWorld(t)
	world.enter()
	seen := make(chan string, 64)
	early, err := net.Listen("tcp4", "192.0.2.1:6443")
	require.NoError(t, err)
	defer early.Close()
	pod.enter()
	listen(t, seen, "a sidecar", "tcp4", ":15001")
	listen(t, seen, "the pod's loopback", "tcp4", "127.0.0.1:80")
	// A connection older than the rules, like the runner's connection to the API server.
	old, err := net.Dial("tcp4", "192.0.2.1:6443")
	require.NoError(t, err)
	defer old.Close()
	answer, err := early.Accept()
	require.NoError(t, err)
	defer answer.Close()

	cfg := network("vm0", netsetup.Forward{HostPort: 8080, GuestPort: 80})
	cfg.AllPorts = &netsetup.AllPorts{Keep: []int{7443}}
	m, err := open(t, cfg)
	require.NoError(t, err)
	listen(t, seen, "the runner", "tcp4", ":7443")
	listen(t, seen, "what came later", "tcp4", ":9999")
	vm := boot(t, m.Files()[0], cfg.MAC.String())
	vm.await("TINY .* READY")

	_, err = answer.Write([]byte("late"))
	require.NoError(t, err)
	require.NoError(t, old.SetReadDeadline(wait.Deadline()))
	_, err = old.Read(make([]byte, 4))
	require.NoError(t, err, "an answer is no beginning")

	conn, err := net.Dial("tcp4", "127.0.0.1:80")
	require.NoError(t, err)
	conn.Close()
	require.Equal(t, "the pod's loopback", <-seen)

	world.enter()
	for _, address := range []string{"192.0.2.10:80", "192.0.2.10:8080"} {
		page, err := fetch(t, address)
		require.NoError(t, err, address)
		require.Contains(t, page, "hello from tiny")
	}
	for address, who := range map[string]string{"192.0.2.10:7443": "the runner", "192.0.2.10:15001": "a sidecar"} {
		conn, err := net.Dial("tcp4", address)
		require.NoError(t, err)
		require.Equal(t, who, <-seen)
		conn.Close()
	}
	_, err = net.Dial("tcp4", "192.0.2.10:9999")
	require.Error(t, err, "nothing listens there in the guest")
	require.Empty(t, seen)

	pod.enter()
	guest, err := netsetup.GuestBehind("vm0")
	require.NoError(t, err)
	require.Equal(t, m.Guest(), guest)
	card, router := []string{cfg.MAC.String()}, netip.MustParseAddr("192.0.2.1")
	for address, want := range map[netip.Addr]bool{guest: true, router: false, m.Gateway(): false} {
		is, err := netsetup.IsNeighbor(address, []string{"vm0", "eth0"}, card)
		require.NoError(t, err)
		require.Equal(t, want, is, "%s", address)
	}
	is, err := netsetup.IsNeighbor(guest, []string{"eth0"}, card)
	require.NoError(t, err)
	require.False(t, is, "by another interface")
	vm.stop()
	require.NoError(t, m.Close())
}

// The generated rules match the expected nft listing.
func TestRulesOfAllPorts(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	cfg := network("vm0")
	cfg.AllPorts = &netsetup.AllPorts{Keep: []int{7443}}
	m, err := open(t, cfg)
	require.NoError(t, err)
	beginning := strings.NewReplacer("tcp flags syn / fin,syn,rst,ack", "BEGINNING",
		"tcp flags & (fin | syn | rst | ack) == syn", "BEGINNING")
	require.Contains(t, beginning.Replace(rules(t)), `	chain forward-in {
		type nat hook prerouting priority -100; policy accept;
		iifname != "vm0" tcp dport 7443 accept
		iifname != "vm0" udp dport 7443 accept
		iifname != "vm0" iifname != "lo" meta nfproto ipv4 fib daddr type local BEGINNING dnat ip to 10.0.2.2
		iifname != "vm0" iifname != "lo" meta nfproto ipv4 fib daddr type local meta l4proto udp dnat ip to 10.0.2.2
	}
`)
	require.NoError(t, m.Close())
}

// UDP datagrams reach the guest. The tiny guest can't receive datagrams, so the test reads them from the tap itself.
func TestAllPortsOfUDP(t *testing.T) {
	t.Parallel()
	pod, world := newPodAndWorld(t)
	cfg := network("vm0")
	cfg.AllPorts = &netsetup.AllPorts{Keep: []int{7443}}
	m, err := open(t, cfg)
	require.NoError(t, err)
	say(t, "iproute2", "ip", "neigh", "add", "10.0.2.2", "lladdr", cfg.MAC.String(), "dev", "vm0")
	world.enter()
	for _, to := range []string{"192.0.2.10:7443", "192.0.2.10:5353"} {
		conn, err := net.Dial("udp4", to)
		require.NoError(t, err)
		_, err = conn.Write([]byte("for " + to))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	pod.enter()
	tap := int(m.Files()[0].Fd())
	frame := make([]byte, 2000)
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(tap), Events: unix.POLLIN}}, int(wait.Longest.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, ready, "no datagram has come")
		n, err := unix.Read(tap, frame)
		require.NoError(t, err)
		require.NotContains(t, string(frame[:n]), "for 192.0.2.10:7443")
		if bytes.Contains(frame[:n], []byte("for 192.0.2.10:5353")) {
			header := bytes.Index(frame[:n], []byte{192, 0, 2, 1, 10, 0, 2, 2})
			require.Positive(t, header, "from the neighbour to the guest")
			require.Equal(t, uint16(5353), binary.BigEndian.Uint16(frame[header+8+2:]))
			break
		}
	}
	require.NoError(t, m.Close())
}
