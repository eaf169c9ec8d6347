package netsetup_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"vmop/netsetup"
	"vmop/test/tier"
)

// leasedTap returns the tap of TestLeaseOutlivesItsCaller.
func leasedTap() netsetup.TapConfig {
	l := leased(true)
	l.Address, l.Gateway = netip.MustParsePrefix("192.0.2.20/24"), netip.MustParseAddr("192.0.2.1")
	l.Routes = nil
	return netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one", Lease: l}
}

// A real guest receives its lease from its own tap, even with another DHCP server on the bridge, and can use no other
// address. Both hold after the caller of OpenTap is killed, and the guest renews its lease after adoption.
func TestLeaseOutlivesItsCaller(t *testing.T) {
	tier.Deep(t)
	if os.Getenv(holdVariable) != "" {
		tap, err := openTap(leasedTap())
		hold(t, tap, err)
	}
	t.Parallel()
	host, world := newPodAndWorld(t)
	bridge := newBridge(t, "br0", 1450)
	cable, err := netlink.LinkByName("eth0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMaster(cable, bridge))
	world.enter()
	serve(t, "pod", "192.0.2.99") // the other server, which is also the gateway
	host.enter()
	before := everything(t)

	opener := openElsewhere(t)
	vm := boot(t, opener.files[0], guestMAC.String(), opener.files[1])
	const ours = "lease=192.0.2.20/24 router=192.0.2.1 dns=192.0.2.53 hostname=web server=192.0.2.1 seconds=86400"
	line, _ := vm.await("TINY .* net eth0 lease=")
	require.Contains(t, line, ours)
	vm.await("TINY .* READY")
	keepsToItsAddress := func() {
		t.Helper()
		status, output := vm.run("ping -c 2 -I 192.0.2.20 192.0.2.1")
		require.Equal(t, "rc=0", status, output)
		status, output = vm.run("ip address add 192.0.2.99/24 dev eth0; arping -q -c 1 -U -I eth0 192.0.2.99; " +
			"ping -c 1 -W 2 -I 192.0.2.99 192.0.2.1")
		require.Equal(t, "rc=1", status, output)
		world.enter()
		require.NotContains(t, say(t, "iproute2", "ip", "neighbor"), "192.0.2.99")
		host.enter()
	}
	keepsToItsAddress()

	opener.kill()
	require.Equal(t, 2, strings.Count(rules(t), "table "), "QEMU has the rules")
	keepsToItsAddress()

	tap, err := adoptTap(leasedTap())
	require.NoError(t, err)
	_, output := vm.run("killall -USR1 udhcpc")
	if !strings.Contains(output, "lease=") {
		output, _ = vm.await("TINY .* net eth0 lease=")
	}
	require.Contains(t, output, ours)
	keepsToItsAddress()
	require.NoError(t, tap.Close())
	vm.stop()
	restored(t, before)
}
