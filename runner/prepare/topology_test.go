package prepare

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmtypes"
)

// The topology is read from the kernel's files in /sys, for a host with a container that may use some of its CPUs.
func TestTopologyOfAHost(t *testing.T) {
	t.Parallel()
	sysfs := fillSysfs(t, folder.Files{
		"devices/system/node/node0/cpulist":                          "0-3,8\n",
		"devices/system/node/node0/meminfo":                          "Node 0 MemTotal:  2048 kB\nNode 0 x: 1 kB\n",
		"devices/system/node/node10/cpulist":                         "\n",
		"devices/system/node/node1/cpulist":                          "4-7,9-11\n",
		"devices/system/node/nodes/cpulist":                          "1\n",
		"devices/system/node/node2/meminfo":                          "a node that says nothing of its CPUs",
		"kernel/mm/hugepages/hugepages-2048kB/free_hugepages":        "512\n",
		"kernel/mm/hugepages/hugepages-1048576kB/free_hugepages":     "0\n",
		"kernel/mm/hugepages/hugepages-16kB/nr_hugepages":            "1\n",
		"kernel/mm/hugepages/hugepages-manykB/free_hugepages":        "1\n",
		"kernel/mm/hugepages/hugepages-99999999999kB/free_hugepages": "1\n",
	}, nil)
	usable := []int{2, 3, 4, 8, 10}
	require.Equal(t, vmtypes.Topology{
		CPUs: usable,
		Nodes: []vmtypes.Node{
			{Number: 0, CPUs: []int{2, 3, 8}, Memory: 2 << 20},
			{Number: 1, CPUs: []int{4, 10}},
			{Number: 10, CPUs: []int{}},
		},
		HugePages: map[int64]int64{2 << 20: 512, 1 << 30: 0},
	}, readTopology(sysfs, usable))
	require.Equal(t, vmtypes.Topology{
		CPUs: usable, Nodes: []vmtypes.Node{{CPUs: usable}}, HugePages: map[int64]int64{},
	}, readTopology(t.TempDir(), usable), "a kernel without NUMA and huge pages")
}

// A running VM keeps the topology of its start, even after its runner was killed.
func TestTopologyIsThatOfTheStart(t *testing.T) {
	t.Parallel()
	var facts HostFacts
	require.Nil(t, facts.Topology, "no type has asked")
	now := facts.hostFor("/data", "/run").Topology()
	require.NotEmpty(t, now.CPUs)
	require.NotEmpty(t, now.Nodes)
	require.Equal(t, usableCPUs(), now.CPUs)

	facts.Topology.HugePages = map[int64]int64{2 << 20: 777}
	record, err := json.Marshal(facts)
	require.NoError(t, err)
	var next HostFacts
	require.NoError(t, json.Unmarshal(record, &next))
	require.Equal(t, map[int64]int64{2 << 20: 777}, next.hostFor("/data", "/run").Topology().HugePages)
}
