package launch

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/netsetup"
	"vmop/vmtypes/plan"
)

// A tap receives the complete lease, or no lease if a part can't be parsed.
func TestLeaseOfATap(t *testing.T) {
	t.Parallel()
	tap := plan.Tap{
		Name: "tap0", Bridge: "br0", MAC: "02:00:00:00:00:01", Hostname: "web", Filter: true,
		Lease: &plan.Lease{
			Address: "10.66.10.5/24", Gateway: "10.66.10.1", Nameservers: []string{"10.66.10.2"},
			Routes: []plan.Route{{To: "10.67.0.0/16", Via: "10.66.10.3"}},
		},
	}
	cfg, err := bridgedConfig(tap, "owner")
	require.NoError(t, err)
	require.Equal(t, netip.MustParsePrefix("10.66.10.5/24"), cfg.Lease.Address)
	require.Equal(t, netip.MustParseAddr("10.66.10.1"), cfg.Lease.Gateway)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.66.10.2")}, cfg.Lease.DNS)
	require.Equal(t, []netsetup.Route{
		{To: netip.MustParsePrefix("10.67.0.0/16"), Via: netip.MustParseAddr("10.66.10.3")},
	}, cfg.Lease.Routes)
	require.True(t, cfg.Lease.Filter, "the guest is kept to its address")
	require.Equal(t, tap.MAC, cfg.Lease.MAC.String())

	for what, change := range map[string]func(l *plan.Lease, t *plan.Tap){
		"address":    func(l *plan.Lease, _ *plan.Tap) { l.Address = "10.66.10.5" },
		"gateway":    func(l *plan.Lease, _ *plan.Tap) { l.Gateway = "router" },
		"nameserver": func(l *plan.Lease, _ *plan.Tap) { l.Nameservers = []string{"router"} },
		"route":      func(l *plan.Lease, _ *plan.Tap) { l.Routes = []plan.Route{{To: "10.67.0.0", Via: "10.6.1.3"}} },
		"MAC":        func(_ *plan.Lease, t *plan.Tap) { t.MAC = "02" },
	} {
		damaged, lease := tap, *tap.Lease
		damaged.Lease = &lease
		change(&lease, &damaged)
		cfg, err := bridgedConfig(damaged, "owner")
		require.ErrorContains(t, err, "tap tap0: lease: ", what)
		require.Nil(t, cfg.Lease, what)
	}
}
