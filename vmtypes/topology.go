package vmtypes

import (
	"maps"
	"slices"

	"go.starlark.net/starlark"
)

// A Topology describes a host's CPUs and memory.
//
// See docs/decisions/0064-topology.md.
type Topology struct {
	// CPUs are the numbers of the CPUs that a VM may use, sorted.
	CPUs []int `json:"cpus,omitempty"`
	// Nodes are the NUMA nodes, sorted. If they are known, there is at least one.
	Nodes []Node `json:"nodes,omitempty"`
	// HugePages maps page sizes in bytes to the number of free huge pages. It contains all sizes that the host
	// supports, even with 0 pages.
	HugePages map[int64]int64 `json:"hugePages,omitempty"`
}

// A Node is a NUMA node.
type Node struct {
	Number int `json:"number" yaml:"number"`
	// CPUs are the CPUs of Topology.CPUs that are close to the node's memory.
	CPUs []int `json:"cpus" yaml:"cpus"`
	// Memory is the size of the node's memory in bytes, 0 if it is unknown.
	Memory int64 `json:"memory,omitempty" yaml:"memory"`
}

// SomeMemory is the memory in bytes of a node of an unknown host.
const SomeMemory = 16 << 30

// SomeTopology returns the topology for an unknown host: 8 CPUs and 16 GiB in one node, and no huge pages.
func SomeTopology() Topology {
	cpus := []int{0, 1, 2, 3, 4, 5, 6, 7}
	return Topology{
		CPUs: cpus, Nodes: []Node{{CPUs: cpus, Memory: SomeMemory}},
		HugePages: map[int64]int64{2 << 20: 0, 1 << 30: 0},
	}
}

func (h hostValue) topologyOf() Topology {
	if h.host.Topology == nil {
		return SomeTopology()
	}
	return h.host.Topology()
}

// hugePages returns the number of free huge pages by their size.
func (h hostValue) hugePages() (starlark.Value, error) {
	free := h.topologyOf().HugePages
	d := starlark.NewDict(len(free))
	for _, size := range slices.Sorted(maps.Keys(free)) {
		if err := d.SetKey(starlark.MakeInt64(size), starlark.MakeInt64(free[size])); err != nil {
			return nil, err
		}
	}
	d.Freeze()
	return d, nil
}
