package netsetup_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
)

// network returns the configuration of most tests.
func network(name string, forwards ...netsetup.Forward) netsetup.MasqueradeConfig {
	return netsetup.MasqueradeConfig{
		Name: name, Owner: "owner of " + name, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Hostname: "guest",
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}, Search: []string{"example.org"}, Forwards: forwards,
	}
}

func open(t *testing.T, cfg netsetup.MasqueradeConfig) (*netsetup.Masquerade, error) {
	t.Helper()
	return netsetup.OpenMasquerade(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func TestMasqueradeSetsUpAndLeavesNothing(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	before := everything(t)

	m, err := open(t, network("vm0",
		netsetup.Forward{HostPort: 2222, GuestPort: 22},
		netsetup.Forward{Protocol: "udp", Address: netip.MustParseAddr("192.0.2.10"), HostPort: 53}))
	require.NoError(t, err)
	require.Equal(t, "vm0", m.Name())
	require.Equal(t, "10.0.2.1", m.Gateway().String())
	require.Equal(t, "10.0.2.2", m.Guest().String())
	require.Equal(t, 1450, m.MTU(), "the MTU of the pod's default route")

	link, err := netlink.LinkByName("vm0")
	require.NoError(t, err)
	require.Equal(t, 1450, link.Attrs().MTU)
	require.Equal(t, "fe:00:00:00:00:01", link.Attrs().HardwareAddr.String())
	require.Contains(t, say(t, "iproute2", "ip", "route"), "10.0.2.0/24 dev vm0 proto kernel scope link src 10.0.2.1")
	forwarding, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	require.NoError(t, err)
	require.Equal(t, "1\n", string(forwarding))
	require.Equal(t, rulesOfVM0, rules(t))

	require.NoError(t, m.Close())
	restored(t, before)
	require.NoError(t, m.Close(), "closing again does no harm")
}

// rules returns nft's listing without the table owner's name and without priority names, which only some versions use.
func rules(t *testing.T) string {
	t.Helper()
	return plain(say(t, "nftables", "nft", "list", "ruleset"))
}

func plain(text string) string {
	text = regexp.MustCompile(` # progname .*`).ReplaceAllString(text, "")
	return strings.NewReplacer("priority raw", "priority -300", "priority dstnat", "priority -100",
		"priority filter", "priority 0", "priority srcnat", "priority 100").Replace(text)
}

const rulesOfVM0 = `table inet vmop-vm0 {
	flags owner

	chain guard {
		type filter hook prerouting priority -300; policy accept;
		iifname "vm0" meta nfproto != ipv4 drop
		iifname "vm0" ip saddr != 10.0.2.2 ip saddr != 0.0.0.0 drop
		iifname "vm0" ip daddr 127.0.0.0/8 drop
		iifname "vm0" udp dport 53 accept
		iifname "vm0" tcp dport 53 accept
		iifname "vm0" ip daddr 169.254.0.0/16 drop
	}

	chain self {
		type filter hook input priority 0; policy accept;
		iifname "vm0" ct state established,related accept
		iifname "vm0" meta l4proto icmp accept
		iifname "vm0" udp dport 53 accept
		iifname "vm0" tcp dport 53 accept
		iifname "vm0" udp dport 67 accept
		iifname "vm0" drop
	}

	chain private {
		type filter hook forward priority 0; policy accept;
		oifname "vm0" ct state new ct status ! dnat drop
	}

	chain forward-in {
		type nat hook prerouting priority -100; policy accept;
		iifname != "vm0" meta nfproto ipv4 fib daddr type local tcp dport 2222 dnat ip to 10.0.2.2:22
		iifname != "vm0" ip daddr 192.0.2.10 udp dport 53 dnat ip to 10.0.2.2:53
	}

	chain forward-own {
		type nat hook output priority -100; policy accept;
		meta nfproto ipv4 fib daddr type local tcp dport 2222 dnat ip to 10.0.2.2:22
		ip daddr 192.0.2.10 udp dport 53 dnat ip to 10.0.2.2:53
	}

	chain masquerade {
		type nat hook postrouting priority 100; policy accept;
		ip saddr 10.0.2.2 oifname != "vm0" masquerade
		oifname "vm0" ip saddr 127.0.0.0/8 masquerade
	}
}
`

func TestMasqueradeFaults(t *testing.T) {
	t.Parallel()
	with := func(change func(*netsetup.MasqueradeConfig)) netsetup.MasqueradeConfig {
		cfg := network("vm0")
		change(&cfg)
		return cfg
	}
	subnet := func(s string) netsetup.MasqueradeConfig {
		return with(func(c *netsetup.MasqueradeConfig) { c.Subnet = netip.MustParsePrefix(s) })
	}
	nothing := func(*testing.T) {}
	tests := []struct {
		name  string
		cfg   netsetup.MasqueradeConfig
		given func(t *testing.T)
		fault netsetup.Fault
		text  string
	}{
		{
			"no right", network("vm0"), becomeNobody, netsetup.NoRight,
			"open masquerade network vm0: set the rules of nftables: the right to administer the network is missing",
		},
		{
			"no right to port 67", network("vm0"), loseLowPorts, netsetup.NoRight,
			"open masquerade network vm0: start the DHCP server on vm0: the right to use ports below 1024 is missing",
		},
		{
			"no right to a forwarded port", network("vm0", netsetup.Forward{HostPort: 80}), loseLowPorts,
			netsetup.NoRight,
			"forward tcp 0.0.0.0:80 to port 80: the right to use ports below 1024 is missing (permission denied); " +
				"run as root or give the program the capability CAP_NET_BIND_SERVICE",
		},
		{
			"forwarding off for good", network("vm0"), sealSysctls, netsetup.ForwardingOff,
			"open masquerade network vm0: IPv4 forwarding is disabled and cannot be enabled from here " +
				"(open /proc/sys/net/ipv4/ip_forward: read-only file system); run `sysctl -w net.ipv4.ip_forward=1` as root " +
				"(in Kubernetes: on the node; new pods use its value)",
		},
		{
			"no tun device", network("vm0"), func(t *testing.T) {
				ownMounts(t)
				require.NoError(t, unix.Mount("none", "/dev/net", "tmpfs", 0, ""))
			}, netsetup.NoTunDevice, "/dev/net/tun does not exist",
		},
		{"long name", network("a-long-name-0123"), nothing, netsetup.NameInvalid, "the name has 16 bytes"},
		{
			"foreign interface", network("vm0"), func(t *testing.T) {
				say(t, "iproute2", "ip", "link", "add", "vm0", "type", "veth")
			}, netsetup.NameTaken, "an interface vm0 exists already and is not this VM's",
		},
		{
			"no address of the machine", with(func(c *netsetup.MasqueradeConfig) { c.MAC = nil }),
			nothing, netsetup.MACInvalid, `"" is not the hardware address of one machine`,
		},
		{
			"a group's address", with(func(c *netsetup.MasqueradeConfig) { c.MAC[0] = 3 }),
			nothing, netsetup.MACInvalid, `"03:00:00:00:00:01" is not the hardware address of one machine`,
		},
		{
			"small subnet", subnet("10.9.9.0/31"), nothing, netsetup.SubnetInvalid,
			"10.9.9.0/31 is not an IPv4 subnet of /8 to /30",
		},
		{"IPv6 subnet", subnet("fd00::/64"), nothing, netsetup.SubnetInvalid, "fd00::/64 is not an IPv4 subnet"},
		{
			"subnet of the pod", subnet("192.0.2.128/25"), nothing, netsetup.SubnetTaken,
			"subnet 192.0.2.128/25 overlaps with interface",
		},
		{
			"subnet with a route", subnet("10.7.0.0/24"), func(t *testing.T) {
				say(t, "iproute2", "ip", "route", "add", "10.7.0.0/24", "dev", "eth0")
			}, netsetup.SubnetTaken, "subnet 10.7.0.0/24 has a route already",
		},
		{
			"unknown protocol", network("vm0", netsetup.Forward{Protocol: "sctp", HostPort: 80}),
			nothing, netsetup.ForwardInvalid, `protocol "sctp" of a forwarded port is neither tcp nor udp`,
		},
		{
			"no port", network("vm0", netsetup.Forward{GuestPort: 80}), nothing, netsetup.ForwardInvalid,
			"a forwarded port has no number",
		},
		{
			"IPv6 forward", network("vm0", netsetup.Forward{Address: netip.IPv6Loopback(), HostPort: 80}),
			nothing, netsetup.ForwardInvalid, "address ::1 of forwarded port 80 is not an IPv4 address",
		},
		{
			"an address of another host", network("vm0", netsetup.Forward{
				Address:  netip.MustParseAddr("192.0.2.77"),
				HostPort: 80,
			}),
			nothing, netsetup.ForwardInvalid, "192.0.2.77 is not an address of this computer",
		},
		{"port in use", network("vm0", netsetup.Forward{HostPort: 8080}), func(t *testing.T) {
			listener, err := net.Listen("tcp4", "127.0.0.1:8080")
			require.NoError(t, err)
			t.Cleanup(func() { listener.Close() })
		}, netsetup.PortTaken, "forward tcp 0.0.0.0:8080 to port 8080: tcp port 8080 is in use"},
		{
			"port twice", network("vm0", netsetup.Forward{HostPort: 8080},
				netsetup.Forward{HostPort: 8080, GuestPort: 80}),
			nothing, netsetup.PortTaken, "forward tcp 0.0.0.0:8080 to port 80: tcp port 8080 is in use",
		},
		{
			"another DHCP server", network("vm0"), func(t *testing.T) {
				server, err := net.ListenPacket("udp4", ":67")
				require.NoError(t, err)
				t.Cleanup(func() { server.Close() })
			}, netsetup.PortTaken, "another DHCP server occupies UDP port 67 of all interfaces",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newPodAndWorld(t)
			test.given(t)
			_, err := open(t, test.cfg)
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.fault, netsetup.FaultOf(err))
			if test.name != "no right" { // without the right, nft fails as well
				require.Empty(t, say(t, "nftables", "nft", "list", "ruleset"))
			}
			require.Equal(t, test.name == "foreign interface", exists(t, "vm0"), "nothing is left")
		})
	}
}

// sealSysctls makes /proc/sys read-only, like container runtimes.
func sealSysctls(t *testing.T) {
	t.Helper()
	ownMounts(t)
	require.NoError(t, unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
}

func TestMasqueradeWorksWithSealedSysctlsWhenForwardingIsOn(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	set(t, "net/ipv4/ip_forward", "1")
	sealSysctls(t)
	m, err := open(t, network("vm0", netsetup.Forward{HostPort: 2222}))
	require.NoError(t, err, "only the forward from the loopback address is missing")
	require.NoError(t, m.Close())
}

func TestMasqueradesShareAPlace(t *testing.T) {
	t.Parallel()
	place, _ := newPodAndWorld(t)
	before := everything(t)
	const machines = 8
	opened := make([]*netsetup.Masquerade, machines)
	faults := make([]error, machines)
	var all sync.WaitGroup
	for i := range machines {
		all.Go(func() {
			place.enter()
			opened[i], faults[i] = open(t, network(fmt.Sprintf("vm%d", i)))
		})
	}
	all.Wait()
	subnets := map[netip.Addr]bool{}
	for i := range machines {
		require.NoError(t, faults[i])
		subnets[opened[i].Gateway()] = true
	}
	require.Len(t, subnets, machines, "every machine has its own subnet")
	for _, m := range opened {
		require.NoError(t, m.Close())
	}
	restored(t, before)
}

func TestMasqueradeOfARunningMachineIsNotReplaced(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	m, err := open(t, network("vm0"))
	require.NoError(t, err)
	before := everything(t)
	_, err = open(t, network("vm0"))
	require.Equal(t, netsetup.NameTaken, netsetup.FaultOf(err))
	require.ErrorContains(t, err, "another process holds the rules of network vm0")
	require.Equal(t, before, everything(t))
	require.NoError(t, m.Close())
}

func TestMasqueradeOutlivesAReloadOfTheFirewall(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	m, err := open(t, network("vm0"))
	require.NoError(t, err)
	before := everything(t)
	say(t, "nftables", "nft", "flush", "ruleset")
	require.Equal(t, before, everything(t))
	require.NoError(t, m.Close())
}

func TestMasqueradeWarnsOfAFirewall(t *testing.T) {
	t.Parallel()
	newPodAndWorld(t)
	say(t, "nftables", "nft", "add table ip filter; "+
		"add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }; "+
		"add chain ip filter INPUT { type filter hook input priority 0; policy drop; }")
	var log bytes.Buffer
	m, err := netsetup.OpenMasquerade(t.Context(), network("vm0"), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.Contains(t, log.String(), `level=WARN msg="firewall drops forwarded packets that it has no rule for" chain="filter FORWARD" interface=vm0`)
	require.NotContains(t, log.String(), "INPUT")
}

// holdVariable marks the process that opens a test's network and is killed.
const holdVariable = "NETSETUP_TEST_HOLD"
