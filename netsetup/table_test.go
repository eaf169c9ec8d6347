package netsetup

import (
	"net/netip"
	"os/exec"
	"runtime"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
)

// TestTableOfAnOldKernel makes the kernel refuse the table flags, like a kernel without table owners.
func TestTableOfAnOldKernel(t *testing.T) {
	t.Parallel()
	namespace, err := ns.TempNetNS()
	require.NoError(t, err)
	defer namespace.Close()
	runtime.LockOSThread()
	require.NoError(t, namespace.Set())
	const unknown = 1 << 7

	killed, err := openTable("test", "vm0", unknown, nftables.TableFamilyINet)
	require.NoError(t, err)
	require.NoError(t, killed.addChains("test", nftables.TableFamilyINet, "",
		masqueradeChains("vm0", netip.MustParseAddr("10.0.2.2"), nil, nil)...))
	require.NotContains(t, ruleset(t), "flags owner")
	require.NoError(t, killed.conn.CloseLasting())
	require.Contains(t, ruleset(t), "vmop-vm0", "it outlives a killed process")

	next, err := openTable("test", "vm0", unknown, nftables.TableFamilyINet)
	require.NoError(t, err, "the next one replaces it")
	require.NoError(t, next.addChains("test", nftables.TableFamilyINet, "",
		masqueradeChains("vm0", netip.MustParseAddr("10.0.2.2"), nil, nil)...))
	require.NoError(t, next.Close())
	require.Empty(t, ruleset(t))

	flushed, err := openTable("test", "vm0", unknown, nftables.TableFamilyINet)
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), "nft", "flush", "ruleset").Run())
	require.NoError(t, flushed.Close(), "the firewall was reloaded")
}

func ruleset(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nft", "list", "ruleset").CombinedOutput()
	require.NoError(t, err, "install the Debian package nftables: %s", out)
	return string(out)
}
