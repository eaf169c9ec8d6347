package netsetup_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
	"vmop/test/tier"
	"vmop/test/wait"
)

// adopted returns the network of TestGuestOutlivesItsCaller.
func adopted() netsetup.MasqueradeConfig {
	return network("vm0",
		netsetup.Forward{HostPort: 8080, GuestPort: 80},
		netsetup.Forward{HostPort: 8081, GuestPort: 80, Address: netip.MustParseAddr("127.0.0.1")})
}

// opened is a process that has opened the network and waits to be killed.
type opened struct {
	t       *testing.T
	process *exec.Cmd
	files   []*os.File // the network's File and Inherit
}

// openElsewhere starts such a process and receives the network's descriptors.
func openElsewhere(t *testing.T) opened {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	name, _, _ := strings.Cut(t.Name(), "/")
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+name+"$")
	child.Env = append(os.Environ(), holdVariable+"=1")
	child.ExtraFiles = []*os.File{theirs}
	child.Stderr = t.Output()
	require.NoError(t, child.Start())
	require.NoError(t, theirs.Close())
	o := opened{t: t, process: child}
	rights := make([]byte, 1024)
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	require.NoError(t, err)
	require.Len(t, messages, 1, "the child has opened its network")
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	for _, fd := range fds {
		o.files = append(o.files, os.NewFile(uintptr(fd), "inherited"))
	}
	return o
}

// held is a network.
type held interface {
	Files() []*os.File
	Inherit() []*os.File
}

// hold passes on a network's descriptors and waits to be killed.
func hold(t *testing.T, m held, err error) {
	require.NoError(t, err)
	var fds []int
	for _, f := range append(m.Files()[:1:1], m.Inherit()...) {
		fds = append(fds, int(f.Fd()))
	}
	require.NoError(t, unix.Sendmsg(3, []byte{0}, unix.UnixRights(fds...), nil, 0))
	select {}
}

// kill kills the process and closes the test's own descriptors.
func (o opened) kill() {
	o.t.Helper()
	for _, f := range o.files {
		require.NoError(o.t, f.Close())
	}
	require.NoError(o.t, o.process.Process.Kill())
	require.ErrorContains(o.t, o.process.Wait(), "killed")
}

// Killing the caller of OpenMasquerade and adopting the network does not disturb the guest. If QEMU has inherited the
// rules, the guest is not even affected in between.
func TestGuestOutlivesItsCaller(t *testing.T) {
	if os.Getenv(holdVariable) != "" {
		m, err := open(t, adopted())
		hold(t, m, err)
	}
	t.Parallel()
	for name, inherits := range map[string]bool{"rules inherited": true, "rules gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !inherits {
				tier.Deep(t)
			}
			outlive(t, inherits)
		})
	}
}

func outlive(t *testing.T, inherits bool) {
	pod, world := newPodAndWorld(t)
	before := everything(t)
	first := openElsewhere(t)
	require.Len(t, first.files, 2)
	inherited := first.files[1:]
	if !inherits {
		inherited = nil
	}
	vm := boot(t, first.files[0], "02:00:00:00:00:01", inherited...)
	vm.await("TINY .* net eth0 lease=10.0.2.2/24")
	vm.await("TINY .* READY")
	during := rules(t)

	world.enter()
	in, err := net.Dial("tcp4", "192.0.2.10:8080")
	require.NoError(t, err)
	defer in.Close()
	out := connected(t, vm, "192.0.2.1:99")
	pod.enter()
	first.kill()

	require.NotContains(t, say(t, "iproute2", "ss", "-Hanut"), ":67")
	if inherits {
		require.Equal(t, during, rules(t), "QEMU holds the rules")
		_, err = io.WriteString(in, "GET / HT")
		require.NoError(t, err)
		_, err = io.WriteString(out, "meanwhile ")
		require.NoError(t, err)
		status, output := vm.run("ping -c 1 192.0.2.1")
		require.Equal(t, "rc=0", status, output)
	} else { // packets arriving now would meet a closed port of the pod
		require.Empty(t, rules(t))
	}

	m, err := netsetup.AdoptMasquerade(t.Context(), adopted(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	require.NoError(t, err)
	require.Equal(t, "vm0", m.Name())
	require.Equal(t, "10.0.2.1", m.Gateway().String())
	require.Equal(t, "10.0.2.2", m.Guest().String())
	require.Equal(t, 1450, m.MTU())
	require.Empty(t, m.Files())
	require.Empty(t, m.Inherit())
	require.Equal(t, during, rules(t))

	// Open connections continue.
	rest := "GET / HTTP/1.0\r\n\r\n"
	if inherits {
		rest = rest[len("GET / HT"):]
	}
	_, err = io.WriteString(in, rest)
	require.NoError(t, err)
	require.NoError(t, in.SetReadDeadline(wait.Deadline()))
	page, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Contains(t, string(page), "hello from tiny")
	_, err = io.WriteString(out, "and after\n")
	require.NoError(t, err)
	require.NoError(t, out.Close())
	_, output := vm.run("until grep -q after /tmp/got; do usleep 10000; done; cat /tmp/got")
	require.Contains(t, output, "and after")
	require.Equal(t, inherits, strings.Contains(output, "meanwhile"))

	worksAfterAdoption(t, vm, pod, world)
	if inherits {
		vm.stop()
		require.NoError(t, m.Close())
	} else {
		require.NoError(t, m.Close())
		require.Empty(t, rules(t))
		vm.stop()
	}
	restored(t, before)
}

// worksAfterAdoption uses every feature of a masquerade.
func worksAfterAdoption(t *testing.T, vm *machine, pod, world place) {
	t.Helper()
	_, output := vm.run("killall -USR1 udhcpc")
	if !strings.Contains(output, "lease=") {
		output, _ = vm.await("TINY .* net eth0 lease=")
	}
	require.Contains(t, output,
		"lease=10.0.2.2/24 router=10.0.2.1 dns=192.0.2.53 hostname=guest server=10.0.2.1 seconds=86400")
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:8081", "192.0.2.10:8080"} {
		page, err := fetch(t, address)
		require.NoError(t, err)
		require.Contains(t, page, "hello from tiny")
	}
	_, err := net.Listen("tcp4", ":8080")
	require.ErrorIs(t, err, unix.EADDRINUSE, "forwarded ports are reserved")
	world.enter()
	page, err := fetch(t, "192.0.2.10:8080")
	require.NoError(t, err)
	require.Contains(t, page, "hello from tiny")
	seen := callers(t, "192.0.2.1:80")
	vm.run("wget -q -O - http://192.0.2.1/")
	require.Equal(t, "192.0.2.10", <-seen, "the world sees the pod, not the guest")
	_, err = fetch(t, "192.0.2.10:8081")
	require.ErrorContains(t, err, "refused", "that port is forwarded on the loopback address only")

	// A neighbor that knows the route cannot use it.
	require.NoError(t, netlink.RouteAdd(&netlink.Route{
		Dst: &net.IPNet{IP: net.IPv4(10, 0, 2, 0), Mask: net.CIDRMask(24, 32)}, Gw: net.IPv4(192, 0, 2, 10),
	}))
	neighbour := net.Dialer{Timeout: time.Second}
	_, err = neighbour.DialContext(t.Context(), "tcp4", "10.0.2.2:80")
	require.ErrorContains(t, err, "timeout")

	// Packets of a guest that uses another address are dropped.
	status, output := vm.run("ip address add 10.0.2.9/24 dev eth0; ping -c 1 -W 2 -I 10.0.2.9 10.0.2.1")
	require.Equal(t, "rc=1", status, output)
	status, output = vm.run("ping -c 1 -I 10.0.2.2 10.0.2.1")
	require.Equal(t, "rc=0", status, output)
	pod.enter()
}

// connected makes the guest connect to an address of the test and write the received data to /tmp/got.
func connected(t *testing.T, vm *machine, address string) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp4", address)
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, listener.(*net.TCPListener).SetDeadline(wait.Deadline()))
	status, output := vm.run("(sleep 100000 | nc " + strings.Replace(address, ":", " ", 1) +
		" >/tmp/got) >/dev/null 2>&1 &")
	require.Equal(t, "rc=0", status, output)
	conn, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAdoptedTapStaysOnItsBridge(t *testing.T) {
	t.Parallel()
	newPlace(t)
	bridge := newBridge(t, "br0", 9000)
	cfg := netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one"}
	crashed, err := openTap(cfg)
	require.NoError(t, err)
	qemus := duplicateSocket(t, crashed.Files()[0])
	require.NoError(t, crashed.Close())
	before := everything(t)

	tap, err := adoptTap(cfg)
	require.NoError(t, err)
	require.Equal(t, "vm0", tap.Name())
	require.Equal(t, 9000, tap.MTU())
	require.Empty(t, tap.Files())
	require.Equal(t, before, everything(t), "nothing is touched")
	_, err = qemus.Write(make([]byte, 64))
	require.NoError(t, err, "QEMU's descriptor still leads there")
	require.NoError(t, tap.Close())
	require.True(t, exists(t, "vm0"), "QEMU still has it")

	// The bridge is recreated.
	require.NoError(t, netlink.LinkDel(bridge))
	_, err = adoptTap(cfg)
	require.Equal(t, netsetup.NoBridge, netsetup.FaultOf(err), "%v", err)
	bridge = newBridge(t, "br0", 9000)
	tap, err = adoptTap(cfg)
	require.NoError(t, err)
	link, err := netlink.LinkByName("vm0")
	require.NoError(t, err)
	require.Equal(t, bridge.Index, link.Attrs().MasterIndex)
	require.NoError(t, tap.Close())
	require.NoError(t, qemus.Close())
	require.False(t, exists(t, "vm0"), "QEMU has ended")
}

// A table without an owner, from a kernel without table owners, is replaced by a table with the same rules.
func TestWhatIsInTheWayOfAnAdoption(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	cfg := adopted()
	crashed, err := open(t, cfg)
	require.NoError(t, err)
	qemus := duplicateSocket(t, crashed.Files()[0])
	defer qemus.Close()
	require.NoError(t, crashed.Close())
	require.True(t, exists(t, "vm0"))
	say(t, "nftables", "nft", "add table inet vmop-vm0; add chain inet vmop-vm0 forward-in")
	listener, err := net.Listen("tcp4", ":8080")
	require.NoError(t, err)
	defer listener.Close()

	var log bytes.Buffer
	m, err := netsetup.AdoptMasquerade(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.Contains(t, log.String(), `level=WARN msg="forwarded port leads to the guest, but another program uses `+
		`it too" forward="tcp 0.0.0.0:8080 to port 80"`)
	require.Contains(t, rules(t), "tcp dport 8080 dnat ip to 10.0.2.2:80")
	_, err = net.Listen("tcp4", "127.0.0.1:8081")
	require.ErrorIs(t, err, unix.EADDRINUSE, "the other is reserved")
	require.NoError(t, m.Close())
	require.Empty(t, rules(t))
	require.True(t, exists(t, "vm0"), "QEMU still has it")
}

func TestWhatCannotBeAdopted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		given func(t *testing.T)
		fault netsetup.Fault
		text  string
	}{
		{"nothing", func(*testing.T) {}, netsetup.Gone, "interface vm0 of the running machine is gone"},
		{"a tap of another machine", func(t *testing.T) {
			tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "two"})
			require.NoError(t, err)
			t.Cleanup(func() { tap.Close() })
		}, netsetup.NameTaken, "an interface vm0 exists already and is not this VM's"},
		{"a tap that was made by hand", func(t *testing.T) {
			say(t, "iproute2", "ip", "tuntap", "add", "vm0", "mode", "tap")
		}, netsetup.NameTaken, "is not this VM's"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newPlace(t)
			newBridge(t, "br0", 1500)
			test.given(t)
			before := everything(t)
			_, err := adoptTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one"})
			require.ErrorContains(t, err, "adopt tap vm0: ")
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.fault, netsetup.FaultOf(err))
			_, err = netsetup.AdoptMasquerade(t.Context(), network("vm0"), slog.New(slog.DiscardHandler))
			require.ErrorContains(t, err, "adopt masquerade network vm0: ")
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.fault, netsetup.FaultOf(err))
			require.Equal(t, before, everything(t), "nothing is touched")
		})
	}
}

func TestAdoptionNeedsTheAddress(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	crashed, err := open(t, adopted())
	require.NoError(t, err)
	qemus := duplicateSocket(t, crashed.Files()[0])
	defer qemus.Close()
	require.NoError(t, crashed.Close())
	say(t, "iproute2", "ip", "address", "flush", "dev", "vm0")
	_, err = netsetup.AdoptMasquerade(t.Context(), adopted(), slog.New(slog.DiscardHandler))
	require.Equal(t, netsetup.Gone, netsetup.FaultOf(err))
	require.ErrorContains(t, err, "interface vm0 of the running machine has lost its address; restart the machine")
}
