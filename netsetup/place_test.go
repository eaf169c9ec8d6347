package netsetup_test

import (
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
	"vmop/test/wait"
)

// place is a network namespace of a test. It exists only as a descriptor, so it disappears even when the test is
// killed.
type place struct {
	t         *testing.T
	namespace ns.NetNS
}

// newPlace creates an empty namespace, enters it and brings up its loopback interface.
func newPlace(t *testing.T) place {
	t.Helper()
	namespace, err := ns.TempNetNS()
	require.NoError(t, err, "make a network namespace (tests of netsetup need root)")
	t.Cleanup(func() { namespace.Close() })
	p := place{t, namespace}
	p.enter()
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	// A new namespace copies these settings from the initial namespace.
	set(t, "net/ipv4/ip_forward", "0")
	// IPv6 addresses appear and disappear by themselves.
	set(t, "net/ipv6/conf/all/disable_ipv6", "1")
	set(t, "net/ipv6/conf/default/disable_ipv6", "1")
	return p
}

// set changes a setting of the current namespace.
func set(t *testing.T, name, value string) {
	t.Helper()
	require.NoError(t, os.WriteFile("/proc/sys/"+name, []byte(value), 0))
}

// enter moves the test's goroutine to the place permanently. Its thread stays locked and ends with the goroutine.
func (p place) enter() {
	p.t.Helper()
	runtime.LockOSThread()
	require.NoError(p.t, p.namespace.Set())
}

// newPodAndWorld creates two places connected by a veth pair with an MTU of 1450, which is common for pods, and enters
// the pod. The pod has the address 192.0.2.10 and its default route leads to the world, 192.0.2.1.
func newPodAndWorld(t *testing.T) (pod, world place) {
	t.Helper()
	world = newPlace(t)
	pod = newPlace(t)
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1450}, PeerName: "pod",
		PeerNamespace: netlink.NsFd(world.namespace.Fd()),
	}
	require.NoError(t, netlink.LinkAdd(cable))
	configure(t, "eth0", "192.0.2.10/24")
	require.NoError(t, netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(192, 0, 2, 1)}))
	world.enter()
	configure(t, "pod", "192.0.2.1/24")
	pod.enter()
	return pod, world
}

// configure assigns an address to an interface and brings it up.
func configure(t *testing.T, name, address string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	require.NoError(t, err)
	a, err := netlink.ParseAddr(address)
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(link, a))
	require.NoError(t, netlink.LinkSetUp(link))
	return link
}

// newBridge creates a bridge with the given MTU.
func newBridge(t *testing.T, name string, mtu int) *netlink.Bridge {
	t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}}
	require.NoError(t, netlink.LinkAdd(bridge))
	require.NoError(t, netlink.LinkSetUp(bridge))
	return bridge
}

// say runs a program in the current namespace and returns its output.
func say(t *testing.T, debianPackage, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%s is missing: install the Debian package %s", program, debianPackage)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", program, args, out)
	return string(out)
}

// everything describes the content of a place: interfaces, addresses, routes, rules and sockets. It omits the carrier
// state.
func everything(t *testing.T) string {
	t.Helper()
	routes := say(t, "iproute2", "ip", "route", "show", "table", "all")
	return say(t, "iproute2", "ip", "-oneline", "address") +
		strings.ReplaceAll(routes, " linkdown", "") +
		say(t, "nftables", "nft", "list", "ruleset") +
		say(t, "iproute2", "ss", "-Hanut")
}

// restored requires that a place returns to its earlier state. This may take a moment: a process start, as in other
// tests, returns shortly before the descriptors that the new process must not inherit are closed; see unforked.
func restored(t *testing.T, before string) {
	t.Helper()
	for late := wait.Deadline(); everything(t) != before && time.Now().Before(late); {
	}
	require.Equal(t, before, everything(t))
}

// becomeNobody removes all rights from the test's thread only. Go's own setuid would change the whole process.
func becomeNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	runtime.LockOSThread()
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		_, _, errno := unix.RawSyscall(call, nobody, nobody, nobody)
		require.Zero(t, errno)
	}
}

// loseLowPorts removes the test's thread's right to ports below 1024.
func loseLowPorts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &sets[0]))
	sets[0].Effective &^= 1 << unix.CAP_NET_BIND_SERVICE
	require.NoError(t, unix.Capset(&header, &sets[0]))
}

// ownMounts creates a separate mount namespace for the test's thread.
func ownMounts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	require.NoError(t, unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	require.NoError(t, unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
}

// exists reports whether the current namespace has an interface with the name.
func exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := netlink.LinkByName(name)
	if err != nil {
		require.ErrorAs(t, err, new(netlink.LinkNotFoundError))
	}
	return err == nil
}

func openTap(cfg netsetup.TapConfig) (*netsetup.Tap, error) {
	return netsetup.OpenTap(cfg, slog.New(slog.DiscardHandler))
}

func adoptTap(cfg netsetup.TapConfig) (*netsetup.Tap, error) {
	return netsetup.AdoptTap(cfg, slog.New(slog.DiscardHandler))
}
