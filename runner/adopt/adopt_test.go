package adopt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// If an earlier version started QEMU, the guest can reach loopback addresses, and the status reports this.
func TestQEMUOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	network := plan.Option{Flag: "-netdev", Value: "user", List: true}
	for name, row := range map[string]struct {
		held         *status.Confinement
		hostLoopback bool
		want         string
	}{
		"of an earlier version":        {held: &status.Confinement{Landlock: 7}, want: "earlier version"},
		"that is asked to reach them":  {held: &status.Confinement{Landlock: 7}, hostLoopback: true},
		"of which nothing is recorded": {},
		"that is known to reach them":  {held: &status.Confinement{Loopback: "it is old"}, want: "it is old"},
	} {
		vm := &prepare.VM{
			Config: &config.Config{}, Held: row.held,
			Plan: &plan.Plan{QEMU: plan.Process{Name: "qemu", Args: []plan.Option{network}}},
			Spec: vmspec.Spec{Network: []vmspec.Network{{Type: vmspec.NetworkUser, HostLoopback: row.hostLoopback}}},
		}
		held := heldWithoutRunner(vm)
		if row.held == nil {
			require.Nil(t, held, name)
			continue
		}
		require.Contains(t, held.Loopback, row.want, name)
		require.Equal(t, row.want == "", held.Loopback == "", name)
	}
}
