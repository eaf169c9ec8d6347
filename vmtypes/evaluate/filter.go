package evaluate

import (
	"fmt"
	"slices"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// filterTaps enables the filter for taps without a lease if the configuration requests it. It does so for every
// VM type, even for a pinned type that is older than this filter: in a cluster, the filter protects others from
// the guest.
func filterTaps(p *plan.Plan, spec vmspec.Spec) error {
	wants := func(n vmspec.Network) bool {
		return n.Type == vmspec.NetworkTap && n.Lease == nil && n.Filter != nil && *n.Filter
	}
	if !slices.ContainsFunc(spec.Network, wants) {
		return nil
	}
	for i := range p.Taps {
		t := &p.Taps[i]
		if t.Bridge == "" || t.Filter {
			continue
		}
		at := slices.IndexFunc(spec.Network, func(n vmspec.Network) bool { return n.Ifname == t.Name })
		if at < 0 {
			return fmt.Errorf("cannot filter the tap %s: no network of the VM has this name; "+
				"name it after vm.network[].ifname in the VM type", t.Name)
		}
		if n := spec.Network[at]; wants(n) {
			t.Filter, t.MAC = true, n.MAC
		}
	}
	return nil
}
