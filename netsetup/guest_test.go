package netsetup_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/wait"
)

// machine is a QEMU that runs the tiny guest with one network card.
type machine struct {
	t       *testing.T
	process *exec.Cmd
	stdin   io.Writer     // the guest's console input
	lines   <-chan string // the guest's console output
}

// boot starts a guest with a card at the other end of the descriptor. QEMU runs in the test's namespace and inherits
// the further descriptors.
func boot(t *testing.T, tap *os.File, mac string, inherited ...*os.File) *machine {
	t.Helper()
	return bootBefore(t, "tap,fd=3", mac, append([]*os.File{tap}, inherited...)...)
}

// bootBefore starts a guest with the given network backend, and passes descriptors from 3 on.
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

// stop ends QEMU and waits until it has ended.
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
			require.FailNow(m.t, "the guest is too slow", "waiting for %q; its output:\n%s", pattern, all)
		}
	}
}

// run runs a command in the guest and returns its exit status and output.
func (m *machine) run(command string) (status, output string) {
	m.t.Helper()
	_, err := io.WriteString(m.stdin, "sh "+command+"\n")
	require.NoError(m.t, err)
	return m.await(`^rc=\d+$`)
}

// fetch reads a server's page from the test's namespace. It stays on the test's thread, which net/http would not.
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

// callers listens in the test's namespace and returns the addresses of its clients.
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

// serve answers DHCP requests on an interface in the test's namespace, as a server other than the masquerade's.
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
