package runner_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/runner"
	"vmop/runner/prepare"
	"vmop/test/invariants"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// newNamespace moves the test's goroutine to an empty network namespace. The thread and the namespace end with the
// goroutine.
func newNamespace(t *testing.T) {
	t.Helper()
	namespace, err := ns.TempNetNS()
	require.NoError(t, err, "make a network namespace (this test needs root)")
	t.Cleanup(func() { namespace.Close() })
	runtime.LockOSThread()
	require.NoError(t, namespace.Set())
	// IPv6 addresses would appear and disappear automatically.
	for _, scope := range []string{"all", "default"} {
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+scope+"/disable_ipv6", []byte("1"), 0))
	}
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// namespace describes the contents of the namespace.
func namespace(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, command := range [][]string{{"ip", "-oneline", "address"}, {"nft", "list", "ruleset"}, {"ss", "-Hanut"}} {
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%v (Debian packages iproute2, nftables): %s", command, out)
		all.Write(out)
	}
	return all.String()
}

// runHere runs the VM in the test's own goroutine, and stops it as soon as its guest runs.
func (v *vm) runHere() (runner.Outcome, error) {
	ctx, cancel := context.WithCancelCause(v.t.Context())
	defer cancel(errEnough)
	v.log.on = func(r record) {
		if r["msg"] == "booting" {
			cancel(errEnough)
		}
	}
	return runner.Run(ctx, v.options())
}

const networkUUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// A tap exists on its bridge exactly while the VM runs. QEMU has no other access to the network.
func TestTapOnABridge(t *testing.T) {
	t.Parallel()
	newNamespace(t)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br7"}}
	require.NoError(t, netlink.LinkAdd(bridge))
	require.NoError(t, netlink.LinkSetUp(bridge))
	before := links(t)

	v := newVM(t, "standard", "uuid: "+networkUUID, "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0",
		"network: [{bridge: br7}, {bridge: br7, ifname: vmsecond, mac: '02:00:00:00:00:07'}]")
	v.onPaused = func(context.Context, *prepare.VM) error {
		for _, name := range []string{vmspec.Ifname(networkUUID, 0), "vmsecond"} {
			tap, err := netlink.LinkByName(name)
			require.NoError(t, err)
			require.Equal(t, bridge.Index, tap.Attrs().MasterIndex, "the tap is on the bridge")
			require.NotZero(t, tap.Attrs().Flags&1, "the tap is up")
		}
		argv := strings.Join(arguments(v.qemu()), " ")
		require.Contains(t, argv, "mac="+vmspec.MAC(networkUUID, 0))
		require.Contains(t, argv, "mac=02:00:00:00:00:07")
		require.Contains(t, argv, "spawn=deny")
		require.Zero(t, invariants.Capabilities(t, v.qemu())&(1<<unix.CAP_NET_ADMIN|1<<unix.CAP_NET_RAW))
		return nil
	}
	for range 2 {
		outcome, err := v.runHere()
		require.NoError(t, err)
		require.Equal(t, vmstatus.CauseForced, outcome.Cause)
		v.nothingLeft()
		require.Equal(t, before, links(t))
	}
}

// With filter: true the guest can use only its card's hardware address, and QEMU's process holds the rules.
func TestAFilterWithoutALease(t *testing.T) {
	t.Parallel()
	newNamespace(t)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br7"}}
	require.NoError(t, netlink.LinkAdd(bridge))
	require.NoError(t, netlink.LinkSetUp(bridge))
	v := newVM(t, "standard", "uuid: "+networkUUID, "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0",
		"network: [{bridge: br7, mac: '02:00:00:00:00:07', filter: true}]")
	v.onPaused = func(context.Context, *prepare.VM) error {
		during := namespace(t)
		require.Contains(t, during, "arp saddr ether != 02:00:00:00:00:07 drop")
		require.Contains(t, during, "nd-router-advert drop")
		require.True(t, hasNetfilterSocket(t, v.qemu()), "QEMU has inherited the rules: they outlive the runner")
		return nil
	}
	_, err := v.runHere()
	require.NoError(t, err)
	require.NotContains(t, namespace(t), "02:00:00:00:00:07")
}

// links returns the names of the interfaces.
func links(t *testing.T) (names []string) {
	t.Helper()
	all, err := netlink.LinkList()
	require.NoError(t, err)
	for _, l := range all {
		names = append(names, l.Attrs().Name)
	}
	return names
}

// The resources of a masquerade network exist exactly while the VM runs.
func TestMasquerade(t *testing.T) {
	t.Parallel()
	newNamespace(t)
	before := namespace(t)
	v := newVM(t, "standard", "uuid: "+networkUUID, "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0",
		"network: [{type: masquerade, net: 10.9.8.0/24, ports: [{host: 2222, guest: 22}]}]")
	v.onPaused = func(context.Context, *prepare.VM) error {
		during := namespace(t)
		require.Contains(t, during, "10.9.8.1/24")
		require.Contains(t, during, "masquerade")
		require.Contains(t, during, "2222")
		require.True(t, hasNetfilterSocket(t, v.qemu()), "QEMU has inherited the rules: they outlive the runner")
		return nil
	}
	outcome, err := v.runHere()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.nothingLeft()
	require.Equal(t, before, namespace(t))
}

// hasNetfilterSocket reports whether a process has an open netlink socket of the namespace for the firewall.
func hasNetfilterSocket(t *testing.T, pid int) bool {
	t.Helper()
	sockets, err := os.ReadFile("/proc/thread-self/net/netlink")
	require.NoError(t, err)
	var wanted []string
	for line := range strings.Lines(string(sockets)) {
		if fields := strings.Fields(line); fields[1] == strconv.Itoa(unix.NETLINK_NETFILTER) {
			wanted = append(wanted, "socket:["+fields[len(fields)-1]+"]")
		}
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	return slices.ContainsFunc(links, func(link string) bool {
		target, _ := os.Readlink(link)
		return slices.Contains(wanted, target)
	})
}

// A failed start removes its taps.
func TestTapOfAFailedStart(t *testing.T) {
	t.Parallel()
	newNamespace(t)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br7"}}
	require.NoError(t, netlink.LinkAdd(bridge))
	before := links(t)
	v := newVM(t, "wrapped", "accelerator: tcg", "firmware: bios", "network: [{bridge: br7}]",
		"options: {qemu: /bin/false}")
	_, err := v.runHere()
	require.ErrorContains(t, err, "qemu ended while the VM was being started: exit status 1")
	require.Equal(t, before, links(t))
	v.nothingLeft()
}
