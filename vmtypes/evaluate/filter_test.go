package evaluate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// The filter is set for any VM type, even for a pinned type that is older than the filter.
func TestTapsAreFilteredWhateverTheType(t *testing.T) {
	t.Parallel()
	networks := []vmspec.Network{
		{Type: vmspec.NetworkTap, Ifname: "vm0", MAC: "02:00:00:00:00:01", Filter: new(true)},
		{Type: vmspec.NetworkTap, Ifname: "vm1", MAC: "02:00:00:00:00:02", Filter: new(false)},
		{Type: vmspec.NetworkTap, Ifname: "vm2", MAC: "02:00:00:00:00:03", Filter: new(true), Lease: &vmspec.Lease{}},
		{Type: vmspec.NetworkMasquerade, Ifname: "vm3", MAC: "02:00:00:00:00:04"},
	}
	made := func() *plan.Plan {
		return &plan.Plan{Taps: []plan.Tap{
			{Name: "vm0", Bridge: "br0"},
			{Name: "vm1", Bridge: "br0"},
			{Name: "vm2", Bridge: "br0", Lease: &plan.Lease{}},
			{Name: "vm3", Subnet: "auto", MAC: "02:00:00:00:00:04"},
		}}
	}
	p := made()
	require.NoError(t, filterTaps(p, vmspec.Spec{Network: networks}))
	want := made()
	want.Taps[0].Filter, want.Taps[0].MAC = true, "02:00:00:00:00:01"
	require.Equal(t, want, p)
	p.Taps[1].Name = "other"
	require.ErrorContains(t, filterTaps(p, vmspec.Spec{Network: networks}), "cannot filter the tap other")
	p = made()
	require.NoError(t, filterTaps(p, vmspec.Spec{Network: networks[1:]}))
	require.Equal(t, made(), p)
}
