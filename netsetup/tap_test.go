package netsetup_test

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
)

func TestTapIsAttachedToItsBridge(t *testing.T) {
	t.Parallel()
	newPlace(t)
	bridge := newBridge(t, "br0", 9000)
	before, err := netlink.LinkByName("br0")
	require.NoError(t, err)

	tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one"})
	require.NoError(t, err)
	require.Equal(t, "vm0", tap.Name())
	require.Equal(t, 9000, tap.MTU())

	link, err := netlink.LinkByName("vm0")
	require.NoError(t, err)
	require.Equal(t, bridge.Index, link.Attrs().MasterIndex)
	require.Equal(t, 9000, link.Attrs().MTU)
	require.EqualValues(t, 0xfe, link.Attrs().HardwareAddr[0])
	require.NotZero(t, link.Attrs().Flags&net.FlagUp, "it is up")
	device, isTap := link.(*netlink.Tuntap)
	require.True(t, isTap)
	require.Equal(t, netlink.TuntapMode(netlink.TUNTAP_MODE_TAP), device.Mode)
	require.True(t, device.NonPersist)
	require.NotZero(t, device.Flags&netlink.TUNTAP_VNET_HDR, "virtio-net header")
	require.NotZero(t, device.Flags&netlink.TUNTAP_NO_PI, "no packet information")

	after, err := netlink.LinkByName("br0")
	require.NoError(t, err)
	require.Equal(t, before.Attrs().MTU, after.Attrs().MTU)

	require.NoError(t, tap.Close())
	require.False(t, exists(t, "vm0"))
}

func TestTapLeavesTheBridgeItsAddress(t *testing.T) {
	t.Parallel()
	newPlace(t)
	bridge := newBridge(t, "br0", 1500)
	port := &netlink.Veth{PeerName: "peer", LinkAttrs: netlink.LinkAttrs{
		Name: "nic", MasterIndex: bridge.Index, HardwareAddr: []byte{0x52, 0x54, 0, 0, 0, 1},
	}}
	require.NoError(t, netlink.LinkAdd(port))
	tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0"})
	require.NoError(t, err)
	defer tap.Close()
	link, err := netlink.LinkByName("br0")
	require.NoError(t, err)
	require.Equal(t, "52:54:00:00:00:01", link.Attrs().HardwareAddr.String())
}

// Each queue of a tap has a descriptor, and the interface exists until all descriptors are closed.
func TestTapWithSeveralQueues(t *testing.T) {
	t.Parallel()
	newPlace(t)
	newBridge(t, "br0", 1500)
	tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Queues: 4})
	require.NoError(t, err)
	require.Len(t, tap.Files(), 4)
	link, err := netlink.LinkByName("vm0")
	require.NoError(t, err)
	require.Equal(t, 4, link.(*netlink.Tuntap).Queues)
	for _, file := range tap.Files() {
		_, err := file.Write(make([]byte, 64))
		require.NoError(t, err)
	}
	qemus := duplicateSocket(t, tap.Files()[3])
	require.NoError(t, tap.Close())
	require.True(t, exists(t, "vm0"), "QEMU still has a queue")
	require.NoError(t, qemus.Close())
	require.False(t, exists(t, "vm0"), "QEMU has ended")

	_, err = openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Queues: 257})
	require.ErrorContains(t, err, "open tap vm0: the kernel allows 256 queues")
	require.False(t, exists(t, "vm0"))
}

// duplicateSocket duplicates a descriptor, as starting QEMU does.
func duplicateSocket(t *testing.T, file *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), file.Name())
}

func TestTapReplacesItsLeftOver(t *testing.T) {
	t.Parallel()
	newPlace(t)
	newBridge(t, "br0", 1500)
	cfg := netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one"}
	crashed, err := openTap(cfg)
	require.NoError(t, err)
	defer crashed.Close()

	tap, err := openTap(cfg)
	require.NoError(t, err)
	_, err = crashed.Files()[0].Write(make([]byte, 64))
	require.ErrorIs(t, err, unix.EBADFD, "the old descriptor leads nowhere")
	_, err = tap.Files()[0].Write(make([]byte, 64))
	require.NoError(t, err, "the new one does")
	require.NoError(t, tap.Close())
}

func TestTapRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		owner  string
		exists func(t *testing.T)
	}{
		{"a tap of another machine", "one", func(t *testing.T) {
			tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "two"})
			require.NoError(t, err)
			t.Cleanup(func() { tap.Close() })
		}},
		{"a tap that was made by hand", "one", func(t *testing.T) {
			say(t, "iproute2", "ip", "tuntap", "add", "vm0", "mode", "tap")
		}},
		{"a tap without an owner, for one without an owner", "", func(t *testing.T) {
			say(t, "iproute2", "ip", "tuntap", "add", "vm0", "mode", "tap")
		}},
		{"another kind of interface, even with the mark", "one", func(t *testing.T) {
			say(t, "iproute2", "ip", "link", "add", "vm0", "type", "veth")
			say(t, "iproute2", "ip", "link", "set", "vm0", "alias", "vmop:one")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newPlace(t)
			newBridge(t, "br0", 1500)
			test.exists(t)
			_, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: test.owner})
			require.Equal(t, netsetup.NameTaken, netsetup.FaultOf(err), "%v", err)
			require.True(t, exists(t, "vm0"))
		})
	}
}

func TestTapFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		cfg   netsetup.TapConfig
		given func(t *testing.T)
		fault netsetup.Fault
		text  string
	}{
		{
			name: "no bridge", cfg: netsetup.TapConfig{Name: "vm0", Bridge: "br1"}, fault: netsetup.NoBridge,
			text: `open tap vm0: bridge "br1" does not exist; create it with ` + "`ip link add br1 type bridge",
		},
		{
			name: "no bridge's name", cfg: netsetup.TapConfig{Name: "vm0"}, fault: netsetup.NoBridge,
			text: `bridge "" does not exist; create it with ` + "`ip link add br0 type bridge",
		},
		{
			name: "not a bridge", cfg: netsetup.TapConfig{Name: "vm0", Bridge: "nic"}, fault: netsetup.NotABridge,
			given: func(t *testing.T) { say(t, "iproute2", "ip", "link", "add", "nic", "type", "veth") },
			text:  `open tap vm0: nic is not a bridge but an interface of kind "veth"`,
		},
		{
			name: "long name", cfg: netsetup.TapConfig{Name: "a-long-name-0123", Bridge: "br0"},
			fault: netsetup.NameInvalid,
			text:  "the name has 16 bytes, an interface's name has at most 15",
		},
		{
			name: "no name", cfg: netsetup.TapConfig{Bridge: "br0"}, fault: netsetup.NameInvalid,
			text: "the interface has no name",
		},
		{
			name: "name with a slash", cfg: netsetup.TapConfig{Name: "vm/0", Bridge: "br0"},
			fault: netsetup.NameInvalid,
			text:  `"vm/0" cannot be the name of an interface`,
		},
		{
			name: "name that is a pattern", cfg: netsetup.TapConfig{Name: "vm%d", Bridge: "br0"},
			fault: netsetup.NameInvalid,
			text:  `"vm%d" cannot be the name of an interface`,
		},
		{
			name: "no right", cfg: netsetup.TapConfig{Name: "vm0", Bridge: "br0"}, fault: netsetup.NoRight,
			given: becomeNobody,
			text: "open tap vm0: the right to administer the network is missing (TUNSETIFF: operation not permitted); " +
				"run as root or give the program the capability CAP_NET_ADMIN",
		},
		{
			name: "no tun device", cfg: netsetup.TapConfig{Name: "vm0", Bridge: "br0"}, fault: netsetup.NoTunDevice,
			given: func(t *testing.T) {
				ownMounts(t)
				require.NoError(t, unix.Mount("none", "/dev/net", "tmpfs", 0, ""))
			},
			text: "open tap vm0: /dev/net/tun does not exist (no such file or directory); load the kernel module tun",
		},
		{
			name: "tun device closed to us", cfg: netsetup.TapConfig{Name: "vm0", Bridge: "br0"},
			fault: netsetup.NoTunDevice,
			given: func(t *testing.T) {
				ownMounts(t)
				require.NoError(t, unix.Mount("none", "/dev/net", "tmpfs", 0, ""))
				require.NoError(t, os.WriteFile("/dev/net/tun", nil, 0o600))
				becomeNobody(t)
			},
			text: "open tap vm0: /dev/net/tun may not be opened (permission denied)",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			newPlace(t)
			newBridge(t, "br0", 1500)
			if test.given != nil {
				test.given(t)
			}
			_, err := openTap(test.cfg)
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.fault, netsetup.FaultOf(err))
			if name := test.cfg.Name; name != "" {
				require.False(t, exists(t, name), "nothing is left")
			}
		})
	}
}
