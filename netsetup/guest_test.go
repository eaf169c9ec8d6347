package netsetup_test

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"vmop/netsetup"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
)

// machine is a QEMU that runs the tiny guest with one network card.
type machine struct {
	t       *testing.T
	process *exec.Cmd
	stdin   io.Writer     // the guest's console
	lines   <-chan string // what the guest says there
}

// boot starts a guest whose card is the other end of the descriptor. Its
// processes are where the test is, and inherit further descriptors.
func boot(t *testing.T, tap *os.File, mac string, inherited ...*os.File) *machine {
	t.Helper()
	return bootBefore(t, "tap,fd=3", mac, append([]*os.File{tap}, inherited...)...)
}

// bootBefore starts a guest with what is behind its card, and descriptors from 3 on.
func bootBefore(t *testing.T, backend, mac string, files ...*os.File) *machine {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "install the Debian package qemu-system-x86")
	image := guest.Tiny(t)
	guest.TakePlace(t)
	process := exec.CommandContext(t.Context(), qemu,
		"-nodefaults", "-display", "none", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256",
		"-kernel", image.Kernel, "-initrd", image.Initrd,
		"-append", guest.CommandLine+" tiny.dhcp",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-netdev", backend+",id=net0", "-device", "virtio-net-pci,netdev=net0,mac="+mac,
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console")
	process.ExtraFiles = files
	process.Stderr = t.Output()
	stdin, err := process.StdinPipe()
	require.NoError(t, err)
	stdout, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	lines := make(chan string, 4096)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	m := &machine{t, process, stdin, lines}
	t.Cleanup(m.stop)
	return m
}

// stop ends QEMU and waits for its end.
func (m *machine) stop() {
	_ = m.process.Process.Kill()
	for range m.lines { // until QEMU has closed its side
	}
	_ = m.process.Wait()
}

// await returns the next line that matches, and all lines up to it.
func (m *machine) await(pattern string) (line, all string) {
	m.t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(m.t)
	for {
		select {
		case line, running := <-m.lines:
			all += line + "\n"
			require.True(m.t, running, "QEMU ended before %q came, with:\n%s", pattern, all)
			if expected.MatchString(line) {
				return line, all
			}
		case <-late:
			require.FailNow(m.t, "the guest is too slow", "waiting for %q, it said:\n%s", pattern, all)
		}
	}
}

// run has the guest run a command and returns its exit status and output.
func (m *machine) run(command string) (status, output string) {
	m.t.Helper()
	_, err := io.WriteString(m.stdin, "sh "+command+"\n")
	require.NoError(m.t, err)
	return m.await(`^rc=\d+$`)
}

// fetch gets the page of a server from where the test is. It stays on the
// test's thread, which net/http would not.
func fetch(t *testing.T, address string) (string, error) {
	t.Helper()
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	page, err := io.ReadAll(conn)
	return string(page), err
}

// callers listens where the test is and reports who connects.
func callers(t *testing.T, address string) <-chan string {
	t.Helper()
	listener, err := net.Listen("tcp4", address)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	seen := make(chan string, 16)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			seen <- conn.RemoteAddr().(*net.TCPAddr).IP.String()
			conn.Close()
		}
	}()
	return seen
}

func TestGuestOnABridge(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	host, world := newPodAndWorld(t)
	bridge := newBridge(t, "br0", 1450)
	cable, err := netlink.LinkByName("eth0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMaster(cable, bridge))
	world.enter()
	serve(t, "pod", "192.0.2.20")
	host.enter()

	tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one", Queues: 2})
	require.NoError(t, err)
	vm := bootBefore(t, "tap,fds=3:4", "02:00:00:00:00:01,mq=on,vectors=6", tap.Files()...)
	require.NoError(t, tap.Close(), "QEMU has its own descriptor now")

	lease, _ := vm.await("TINY .* net eth0 lease=")
	require.Contains(t, lease, "lease=192.0.2.20/24 router=192.0.2.1")
	vm.await("TINY .* READY")
	status, output := vm.run("ping -c 3 192.0.2.1")
	require.Equal(t, "rc=0", status, output)
	world.enter()
	page, err := fetch(t, "192.0.2.20:80")
	require.NoError(t, err)
	require.Contains(t, page, "hello from tiny")
}

// serve answers DHCP requests on an interface where the test is, with another
// server than the masquerade's.
func serve(t *testing.T, device, address string) {
	t.Helper()
	own := net.IPv4(192, 0, 2, 1)
	server, err := server4.NewServer(device, &net.UDPAddr{Port: 67},
		func(conn net.PacketConn, _ net.Addr, request *dhcpv4.DHCPv4) {
			kind := dhcpv4.MessageTypeOffer
			if request.MessageType() == dhcpv4.MessageTypeRequest {
				kind = dhcpv4.MessageTypeAck
			}
			answer, err := dhcpv4.NewReplyFromRequest(request,
				dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP(address)), dhcpv4.WithLeaseTime(3600),
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(own)),
				dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(own))
			if err == nil {
				_, _ = conn.WriteTo(answer.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
			}
		})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve() }()
	t.Cleanup(func() { server.Close(); <-ended })
}

func TestGuestBehindAMasquerade(t *testing.T) {
	t.Parallel()
	pod, world := newPodAndWorld(t)
	before := everything(t)
	cfg := network("vm0",
		netsetup.Forward{HostPort: 8080, GuestPort: 80},
		netsetup.Forward{HostPort: 8081, GuestPort: 80, Address: netip.MustParseAddr("127.0.0.1")})
	m, err := open(t, cfg)
	require.NoError(t, err)
	vm := boot(t, m.Files()[0], cfg.MAC.String())
	lease, _ := vm.await("TINY .* net eth0 lease=")
	require.Contains(t, lease,
		"lease=10.0.2.2/24 router=10.0.2.1 dns=192.0.2.53 hostname=guest server=10.0.2.1 seconds=86400")
	vm.await("TINY .* READY")

	reaches := func(address string) {
		t.Helper()
		page, err := fetch(t, address)
		require.NoError(t, err)
		require.Contains(t, page, "hello from tiny")
	}
	reaches("127.0.0.1:8080")
	reaches("192.0.2.10:8080")
	reaches("127.0.0.1:8081")
	_, err = fetch(t, "192.0.2.10:8081")
	require.ErrorContains(t, err, "refused", "that port is forwarded on the loopback address only")

	world.enter()
	reaches("192.0.2.10:8080")
	status, output := vm.run("ping -c 3 192.0.2.1")
	require.Equal(t, "rc=0", status, output)
	seen := callers(t, "192.0.2.1:80")
	vm.run("wget -q -O - http://192.0.2.1/")
	require.Equal(t, "192.0.2.10", <-seen, "the world sees the pod, not the guest")

	// A neighbour who knows the way cannot take it.
	require.NoError(t, netlink.RouteAdd(&netlink.Route{
		Dst: &net.IPNet{IP: net.IPv4(10, 0, 2, 0), Mask: net.CIDRMask(24, 32)}, Gw: net.IPv4(192, 0, 2, 10),
	}))
	neighbour := net.Dialer{Timeout: time.Second}
	_, err = neighbour.DialContext(t.Context(), "tcp4", "10.0.2.2:80")
	require.ErrorContains(t, err, "timeout")

	// A guest that takes another address is not heard.
	status, output = vm.run("ip address add 10.0.2.9/24 dev eth0; ping -c 1 -W 2 -I 10.0.2.9 10.0.2.1")
	require.Equal(t, "rc=1", status, output)
	status, output = vm.run("ping -c 1 -I 10.0.2.2 10.0.2.1")
	require.Equal(t, "rc=0", status, output)

	pod.enter()
	vm.stop()
	require.NoError(t, m.Close())
	restored(t, before)
}
