package changes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A change is applied to the running VM if it has a rule, up to the rule's bound.
func TestWhatARuleMakesLive(t *testing.T) {
	t.Parallel()
	wanted := vmspec.Spec{
		CurrentCPUs: 4, CurrentRAM: 1 << 30, Drives: []vmspec.Drive{{Type: vmspec.DriveIDECD}, {Type: "virtio-disk"}},
		Network: []vmspec.Network{{Type: vmspec.NetworkUser}, {Type: vmspec.NetworkTap}},
	}
	for _, tt := range []struct {
		rule plan.Rule
		path string
		want bool
	}{
		{plan.CPUs{Maximum: 4}, "vm.currentCpus", true},
		{plan.CPUs{Maximum: 3}, "vm.currentCpus", false},
		{plan.Balloon{Maximum: 1 << 30}, "vm.currentRam", true},
		{plan.Balloon{Maximum: 1<<30 - 1}, "vm.currentRam", false},
		{plan.Memory{Maximum: 1 << 30}, "vm.currentRam", true},
		{plan.Memory{Maximum: 1<<30 - 1}, "vm.currentRam", false},
		{plan.Medium{Drive: 0}, "vm.drives[0].file", true},
		{plan.Medium{Drive: 1}, "vm.drives[1].file", false},
		{plan.Medium{Drive: 2}, "vm.drives[2].file", false},
		{plan.Medium{Drive: -1}, "vm.drives[-1].file", false},
		{plan.Ports{Network: 0}, "vm.network[0].ports[1].host", true},
		{plan.Ports{Network: 0}, "vm.network[1].ports[1].host", false},
		{plan.Ports{Network: 1}, "vm.network[1].ports[1].host", false},
		{plan.Ports{Network: 2}, "vm.network[2].ports", false},
		{plan.Disk{}, "vm.drives[1].file", false},
	} {
		require.Equal(t, tt.want, Live(plan.Rules{tt.rule}, wanted)(tt.path), "%#v %s", tt.rule, tt.path)
	}
	require.False(t, Live(nil, wanted)("vm.currentRam"))
}
