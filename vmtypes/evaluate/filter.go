package evaluate

import (
	"fmt"
	"slices"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// filterTaps sets the filter of taps without a lease, for which the configuration wants one. It does so for every VM
// type, also one that was kept before there was such a filter: in a cluster the filter protects others from the guest.
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
