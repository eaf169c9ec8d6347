package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/test/frames"
	"vmop/test/invariants"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// loopbackPort is where the tests' host listens at each loopback address, and at others.
const loopbackPort = 18999

// outside is an address that is no loopback address of the tests' host.
const outside = "198.51.100.1"

// craftedPackets are the addresses to which a guest of a user network sends to reach loopback addresses of its
// host; without a guard QEMU 7.2 takes it to all of them.
func craftedPackets() []string {
	return []string{
		"10.0.2.2", "127.0.0.1", "127.0.0.2", "0.0.0.0", "fec0::2", "fec0::77", "::1", "::", "::ffff:127.0.0.1",
	}
}

// attempts is what has arrived at the tests' host, and a guest that sends.
type attempts struct {
	t    *testing.T
	seen chan string // "tcp" or "udp", and the address of the listener
	line net.Conn    // with a user network
	port uint16      // that was sent from last
}

// watchLoopback listens in the namespace that the test is in.
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

// joins makes a user network in the QEMU of a folder, and connects with it as its guest.
func (a *attempts) joins(dir string) {
	a.t.Helper()
	client, err := control.Dial(a.t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(a.t, err)
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
	wait.Until(a.t, func() bool { // QEMU makes the socket in a thread
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

// try sends to an address by TCP and UDP.
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

// arrived tries all addresses, then one outside, and returns what has arrived until that has.
func (a *attempts) arrived() (seen []string) {
	a.t.Helper()
	for _, address := range craftedPackets() {
		a.try(address)
	}
	late := wait.Over(a.t)
	for outsiders := map[string]bool{}; len(outsiders) < 2; {
		a.try(outside) // QEMU looks at packets in their order
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
	for { // what was sent before is accepted soon
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

// userNetworkOf returns a folder whose VM has a user network, and no guest that sends.
func userNetworkOf(t *testing.T, network string) string {
	t.Helper()
	return folder(t, "standard", "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0", "maximumRam: 32 MiB",
		"network: ["+network+"]")
}

// A guest of a user network reaches no loopback address of its host, whatever it sends, and all others; also when
// its runner is killed, and when the next one has adopted it.
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
			second.signal(syscall.SIGTERM)
			require.Zero(t, second.exit())
			invariants.NothingLeft(t, dir)
		})
	}
}

// With hostLoopback each of these addresses leads to the host, by TCP and UDP.
func TestAGuestReachesTheHostsLoopbackIfAsked(t *testing.T) {
	t.Parallel()
	enterHost(t)
	a, dir := watchLoopback(t), userNetworkOf(t, "{type: user, hostLoopback: true}")
	p := start(t, dir, nil)
	p.await(`booting`)
	a.joins(dir)
	seen := map[string]int{}
	for _, what := range a.arrived() {
		seen[what]++
	}
	require.Equal(t, map[string]int{
		"tcp 127.0.0.1": 4, "udp 127.0.0.1": 4, "tcp 127.0.0.2": 1, "udp 127.0.0.2": 1, "tcp ::1": 4, "udp ::1": 4,
	}, seen)
}

// QEMU itself reaches disks and CDs at loopback addresses, though its guest doesn't.
func TestADiskAtALoopbackAddress(t *testing.T) {
	t.Parallel()
	enterHost(t)
	a, dir := watchLoopback(t), userNetworkOf(t, "{type: user}")
	p := start(t, dir, nil)
	p.await(`booting`)
	client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(t, err)
	_, err = client.QMP(t.Context(), qmp.Command{Execute: "blockdev-add", Arguments: map[string]any{
		"driver": "nbd", "node-name": "disk", "server": map[string]string{
			"type": "inet", "host": "127.0.0.1", "port": fmt.Sprint(loopbackPort),
		},
	}})
	require.Error(t, err, "no NBD server answers")
	require.Equal(t, "tcp 127.0.0.1", <-a.seen)
}
