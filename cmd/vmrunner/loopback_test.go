package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/frames"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// loopbackPort is the port on which the tests' host listens, at each loopback address and at others.
const loopbackPort = 18999

// outside is an address of the tests' host that is not a loopback address.
const outside = "198.51.100.1"

// craftedPackets returns the addresses to which a guest of a user network can send to reach loopback addresses of its
// host. Without a guard, QEMU 7.2 delivers packets to all these addresses.
func craftedPackets() []string {
	return []string{
		"10.0.2.2", "127.0.0.1", "127.0.0.2", "0.0.0.0", "fec0::2", "fec0::77", "::1", "::", "::ffff:127.0.0.1",
	}
}

// attempts contains the connections that have arrived at the tests' host, and a guest that sends.
type attempts struct {
	t    *testing.T
	seen chan string // "tcp" or "udp", and the address of the listener
	line net.Conn    // to a user network
	port uint16      // last source port
}

// watchLoopback listens in the test's namespace.
func watchLoopback(t *testing.T) *attempts {
	t.Helper()
	a := &attempts{t: t, seen: make(chan string, 1024), port: 2000}
	for _, address := range []string{"127.0.0.1", "127.0.0.2", "::1", outside} {
		at := net.JoinHostPort(address, fmt.Sprint(loopbackPort))
		listener, err := net.Listen("tcp", at)
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return // the test has ended
				}
				a.seen <- "tcp " + address
				conn.Close()
			}
		}()
		socket, err := net.ListenPacket("udp", at)
		require.NoError(t, err)
		t.Cleanup(func() { socket.Close() })
		go func() {
			for data := make([]byte, 100); ; {
				if _, _, err := socket.ReadFrom(data); err != nil {
					return
				}
				a.seen <- "udp " + address
			}
		}()
	}
	return a
}

// joins creates a user network in the QEMU of a folder, and connects to it as its guest.
func (a *attempts) joins(dir string) {
	a.t.Helper()
	client := dial(a.t, dir)
	socket := filepath.Join(dir, "run", "line.sock")
	for _, network := range []map[string]any{
		{"type": "user", "id": "crafted"},
		{"type": "hubport", "id": "hub0", "hubid": 7, "netdev": "crafted"},
		{"type": "stream", "id": "line", "server": true, "addr": map[string]string{"type": "unix", "path": socket}},
		{"type": "hubport", "id": "hub1", "hubid": 7, "netdev": "line"},
	} {
		_, err := client.QMP(a.t.Context(), qmp.Command{Execute: "netdev_add", Arguments: network})
		require.NoError(a.t, err)
	}
	wait.Until(a.t, func() bool { // QEMU creates the socket in a thread
		var err error
		a.line, err = net.Dial("unix", socket)
		return err == nil
	})
	a.t.Cleanup(func() { a.line.Close() })
	require.NoError(a.t, os.Remove(socket))
	a.send(frames.Announcement(netip.MustParseAddr("10.0.2.15")))
}

func (a *attempts) send(frame []byte) {
	a.t.Helper()
	_, err := a.line.Write(frames.Framed(frame))
	require.NoError(a.t, err)
}

// try sends to an address over TCP and UDP.
func (a *attempts) try(address string) {
	a.t.Helper()
	a.port++
	to, own := netip.AddrPortFrom(netip.MustParseAddr(address), loopbackPort), netip.MustParseAddr("10.0.2.15")
	if to.Addr().Is6() {
		own = netip.MustParseAddr("fec0::5054:ff:fe12:3456")
	}
	from := netip.AddrPortFrom(own, a.port)
	a.send(frames.SYN(from, to))
	a.send(frames.Datagram(from, to, address))
}

// arrived sends to all addresses, and then to outside. It returns the arrivals before that.
func (a *attempts) arrived() (seen []string) {
	a.t.Helper()
	for _, address := range craftedPackets() {
		a.try(address)
	}
	late := wait.Over(a.t)
	for outsiders := map[string]bool{}; len(outsiders) < 2; {
		a.try(outside) // QEMU handles packets in order
		select {
		case what := <-a.seen:
			if strings.HasSuffix(what, outside) {
				outsiders[what] = true
			} else {
				seen = append(seen, what)
			}
		case <-time.After(time.Second):
		case <-late:
			require.FailNow(a.t, "nothing arrives outside")
		}
	}
	for { // earlier connections are accepted soon
		select {
		case what := <-a.seen:
			if !strings.HasSuffix(what, outside) {
				seen = append(seen, what)
			}
		case <-time.After(500 * time.Millisecond):
			return seen
		}
	}
}

// userNetworkOf returns a folder with a VM with a user network. Its own guest does not send packets.
func userNetworkOf(t *testing.T, network string) string {
	t.Helper()
	return folder(t, "standard", "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0", "maximumRam: 32 MiB",
		"network: ["+network+"]")
}

// A guest of a user network can't reach loopback addresses of its host, even with crafted packets, but it reaches all
// other addresses. This also holds while its runner is killed, and after the next runner has adopted it.
func TestAGuestDoesNotReachTheHostsLoopback(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]func(*program, string) *program{
		"root":         func(p *program, _ string) *program { return p },
		"without root": (*program).unprivileged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enterHost(t)
			a, dir := watchLoopback(t), userNetworkOf(t, "{type: user}")
			first := user(newProgram(t, dir, nil), dir)
			first.launch()
			first.await(`booting`)
			a.joins(dir)
			require.Empty(t, a.arrived())
			c := known(t, dir).Condition(vmstatus.ConditionConfined)
			require.Equal(t, vmstatus.ReasonConfined, c.Reason, c.Message)
			require.NotContains(t, c.Message, "loopback addresses")

			first.kill()
			require.Empty(t, a.arrived(), "without a runner")
			if name != "root" {
				return
			}
			second := start(t, dir, nil)
			second.await(`configuration read`)
			require.Empty(t, a.arrived(), "with another runner")
			require.Equal(t, vmstatus.ReasonConfined, known(t, dir).Condition(vmstatus.ConditionConfined).Reason)
			second.stops(dir)
		})
	}
}

// With hostLoopback each of these addresses leads to the host, over TCP and UDP.
func TestAGuestReachesTheHostsLoopbackIfAsked(t *testing.T) {
	t.Parallel()
	enterHost(t)
	a, dir := watchLoopback(t), userNetworkOf(t, "{type: user, hostLoopback: true}")
	booted(t, dir)
	a.joins(dir)
	seen := map[string]int{}
	for _, what := range a.arrived() {
		seen[what]++
	}
	require.Equal(t, map[string]int{
		"tcp 127.0.0.1": 4, "udp 127.0.0.1": 4, "tcp 127.0.0.2": 1, "udp 127.0.0.2": 1, "tcp ::1": 4, "udp ::1": 4,
	}, seen)
}

// QEMU itself can read disks and CDs at loopback addresses, although its guest can't.
func TestADiskAtALoopbackAddress(t *testing.T) {
	t.Parallel()
	enterHost(t)
	a, dir := watchLoopback(t), userNetworkOf(t, "{type: user}")
	booted(t, dir)
	client := dial(t, dir)
	_, err := client.QMP(t.Context(), qmp.Command{Execute: "blockdev-add", Arguments: map[string]any{
		"driver": "nbd", "node-name": "disk", "server": map[string]string{
			"type": "inet", "host": "127.0.0.1", "port": fmt.Sprint(loopbackPort),
		},
	}})
	require.Error(t, err, "no NBD server answers")
	require.Equal(t, "tcp 127.0.0.1", <-a.seen)
}
