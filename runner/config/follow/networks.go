package follow

import (
	"fmt"
	"slices"
	"strings"

	"vmop/runner/machine/changes"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
)

// networkPath returns a path below vm.network with the index of the configuration. Machines are compared without the
// networks with cards that are plugged into the running machine. A network that exists only in before has its index
// there.
func networkPath(path string, wanted, before *prepare.VM) string {
	var i int
	rest, is := strings.CutPrefix(path, "vm.network[")
	if _, err := fmt.Sscanf(rest, "%d]", &i); !is || err != nil {
		return path
	}
	of := wanted
	if i >= len(wanted.Spec.Network) {
		of = before
	}
	_, field, _ := strings.Cut(rest, "]")
	return fmt.Sprintf("vm.network[%d]%s", of.NetworkIndex(i), field)
}

// cardChanges returns the changes of networks with cards that are plugged in or unplugged while the VM is running.
func cardChanges(before, wanted *prepare.VM) (list []status.Change) {
	find := func(cards []reconcile.Card, mac string) *reconcile.Card {
		i := slices.IndexFunc(cards, func(c reconcile.Card) bool { return c.MAC == mac })
		if i < 0 {
			return nil
		}
		return &cards[i]
	}
	for _, c := range wanted.NICs {
		old, a := find(before.NICs, c.MAC), changes.Machine{}
		if old != nil {
			a.VM.Network = []vmspec.Network{before.Networks[old.Index]}
		}
		b := changes.Machine{VM: vmspec.Spec{Network: []vmspec.Network{wanted.Networks[c.Index]}}}
		list = append(list, atPath(changes.Differences(a, b), c.Path())...)
	}
	for _, c := range before.NICs {
		if find(wanted.NICs, c.MAC) == nil {
			a := changes.Machine{VM: vmspec.Spec{Network: []vmspec.Network{before.Networks[c.Index]}}}
			list = append(list, atPath(changes.Differences(a, changes.Machine{}), c.Path())...)
		}
	}
	return list
}

// atPath returns changes of vm.network[0] with another path.
func atPath(list []status.Change, path string) []status.Change {
	for i := range list {
		list[i].Path = path + strings.TrimPrefix(list[i].Path, "vm.network[0]")
	}
	return list
}
