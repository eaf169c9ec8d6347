package netsetup_test

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vmop/netsetup"
)

// benchPlace takes the benchmark to a namespace with a bridge.
func benchPlace(b *testing.B) {
	b.Helper()
	namespace, err := ns.TempNetNS()
	require.NoError(b, err, "make a network namespace (benchmarks of netsetup need root)")
	b.Cleanup(func() { namespace.Close() })
	runtime.LockOSThread()
	require.NoError(b, namespace.Set())
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	require.NoError(b, netlink.LinkAdd(bridge))
	require.NoError(b, netlink.LinkSetUp(bridge))
}

// What a machine's start waits for. Taking a network down takes longer: the
// kernel waits for all processors to have let go of it.

func BenchmarkOpenTap(b *testing.B) {
	benchPlace(b)
	for range b.N {
		b.StartTimer()
		tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Owner: "one"})
		b.StopTimer()
		require.NoError(b, err)
		require.NoError(b, tap.Close())
	}
}

func BenchmarkOpenMasquerade(b *testing.B) {
	benchPlace(b)
	for range b.N {
		b.StartTimer()
		m, err := netsetup.OpenMasquerade(b.Context(), network("vm0", netsetup.Forward{HostPort: 2222}),
			slog.New(slog.DiscardHandler))
		b.StopTimer()
		require.NoError(b, err)
		require.NoError(b, m.Close())
	}
}

// What a lease costs each frame of the guest on its way to a neighbor: of 1400 bytes, one by
// one, without and with the packet socket, and with the filter.
func BenchmarkFrame(b *testing.B) {
	for name, l := range map[string]*netsetup.Lease{"plain": nil, "lease": leased(false), "filter": leased(true)} {
		b.Run(name, func(b *testing.B) {
			benchPlace(b)
			bridge, err := netlink.LinkByName("br0")
			require.NoError(b, err)
			for _, name := range []string{"port", "plug"} {
				cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port"}, PeerName: "plug"}
				if name == "port" {
					require.NoError(b, netlink.LinkAdd(cable))
					require.NoError(b, netlink.LinkSetMaster(cable, bridge))
				}
				link, err := netlink.LinkByName(name)
				require.NoError(b, err)
				require.NoError(b, netlink.LinkSetUp(link))
			}
			tap, err := openTap(netsetup.TapConfig{Name: "vm0", Bridge: "br0", Lease: l})
			require.NoError(b, err)
			defer tap.Close()
			sent := frame(otherMAC, guestMAC, unix.ETH_P_IP, datagram(guestIP, otherIP, 1000, 1000, make([]byte, 1400)))
			sent = append(make([]byte, 10), sent...)
			b.SetBytes(int64(len(sent)))
			for b.Loop() {
				_, err := tap.Files()[0].Write(sent)
				require.NoError(b, err)
			}
		})
	}
}
