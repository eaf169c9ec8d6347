package vmtypes

import (
	"maps"
	"slices"

	"go.starlark.net/starlark"
)

// A Topology is what a host has for VMs to run on.
//
// See docs/decisions/0064-topology.md.
type Topology struct {
	// CPUs are the numbers of those that a VM may use, in order.
	CPUs []int `json:"cpus,omitempty"`
	// Nodes are the NUMA nodes, in order; there is at least one where that is known.
	Nodes []Node `json:"nodes,omitempty"`
	// HugePages are how many huge pages are free, by their size in bytes; a size that the
	// host has none of is listed, too.
	HugePages map[int64]int64 `json:"hugePages,omitempty"`
}

// A Node is a NUMA node.
type Node struct {
	Number int `json:"number"`
	// CPUs are those of Topology.CPUs that are near its memory.
	CPUs []int `json:"cpus" yaml:"cpus"`
}

// SomeTopology returns that of a host of which it isn't known: 8 CPUs in one node, and no
// huge pages.
func SomeTopology() Topology {
	cpus := []int{0, 1, 2, 3, 4, 5, 6, 7}
	return Topology{CPUs: cpus, Nodes: []Node{{CPUs: cpus}}, HugePages: map[int64]int64{2 << 20: 0, 1 << 30: 0}}
}

func (h hostValue) topology() Topology {
	if h.host.Topology == nil {
		return SomeTopology()
	}
	return h.host.Topology()
}

// hugePages returns the free huge pages by their size.
func (h hostValue) hugePages() (starlark.Value, error) {
	free := h.topology().HugePages
	d := starlark.NewDict(len(free))
	for _, size := range slices.Sorted(maps.Keys(free)) {
		if err := d.SetKey(starlark.MakeInt64(size), starlark.MakeInt64(free[size])); err != nil {
			return nil, err
		}
	}
	d.Freeze()
	return d, nil
}
