package prepare

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vmop/vmtypes"
)

// mostCPUs is the largest number of CPUs that Linux supports (CONFIG_NR_CPUS).
const mostCPUs = 8192

// hostTopology returns the CPUs and memory nodes of this computer. It reads them from /sys only if a type asks for
// them.
func (f *HostFacts) hostTopology() vmtypes.Topology {
	if f.Topology == nil {
		f.Topology = new(readTopology(sysfs, usableCPUs()))
	}
	return *f.Topology
}

// usableCPUs returns the CPUs that this process may use: the CPUs that are online and in its cpuset.
func usableCPUs() (list []int) {
	set := unix.NewCPUSet(mostCPUs)
	if unix.SchedGetaffinityDynamic(0, set) != nil {
		return nil
	}
	for n := range mostCPUs {
		if set.IsSet(n) {
			list = append(list, n)
		}
	}
	return list
}

// readTopology reads the kernel's description in sysfs. Missing entries are unknown. Source:
// Documentation/ABI/stable/sysfs-devices-node and testing/sysfs-kernel-mm-hugepages.
func readTopology(sysfs string, usable []int) vmtypes.Topology {
	t := vmtypes.Topology{CPUs: usable, HugePages: map[int64]int64{}}
	nodes, _ := filepath.Glob(filepath.Join(sysfs, "devices/system/node/node[0-9]*"))
	for _, folder := range nodes {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(folder), "node"))
		text, missing := os.ReadFile(filepath.Join(folder, "cpulist"))
		if err == nil && missing == nil {
			near := inList(string(text), usable)
			t.Nodes = append(t.Nodes, vmtypes.Node{Number: number, CPUs: near, Memory: totalMemory(folder)})
		}
	}
	slices.SortFunc(t.Nodes, func(a, b vmtypes.Node) int { return cmp.Compare(a.Number, b.Number) })
	if t.Nodes == nil { // a kernel without NUMA
		t.Nodes = []vmtypes.Node{{CPUs: usable}}
	}
	sizes, _ := filepath.Glob(filepath.Join(sysfs, "kernel/mm/hugepages/hugepages-*kB"))
	for _, folder := range sizes {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "hugepages-"), "kB")
		size, err := strconv.ParseInt(name, 10, 32)
		text, missing := os.ReadFile(filepath.Join(folder, "free_hugepages"))
		free, wrong := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && missing == nil && wrong == nil {
			t.HugePages[size<<10] = free
		}
	}
	return t
}

// totalMemory returns the size of a node's memory in bytes, 0 if it is unknown.
func totalMemory(node string) int64 {
	for line := range strings.Lines(readFact(node, "meminfo")) {
		words := strings.Fields(line) // Node 0 MemTotal: 16384 kB
		if len(words) == 5 && words[2] == "MemTotal:" {
			kB, _ := strconv.ParseInt(words[3], 10, 53)
			return max(0, kB) << 10
		}
	}
	return 0
}

// inList returns the CPUs that are in a list in the kernel's format: 0-3,8.
func inList(list string, cpus []int) []int {
	found := []int{}
	for word := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(word, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		for _, n := range cpus {
			if err == nil && from <= n && n <= to {
				found = append(found, n)
			}
		}
	}
	return found
}
