package netsetup_test

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

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
