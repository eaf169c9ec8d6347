package influence

import (
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A HostField is one fact about a computer. Host is the computer with a different value of the fact.
type HostField struct {
	Path, Value string
	Host        vmtypes.Host
}

// Queries are what a type has asked for: the paths of existing files, and the addresses of existing PCI devices.
type Queries struct {
	Files, PCI []string
}

// RecordQueries records the queries that a host receives from now on.
func RecordQueries(host *vmtypes.Host) *Queries {
	var q Queries
	exists, pci := host.Exists, host.PCI
	host.Exists = func(path string) bool {
		is := exists(path)
		if is && !slices.Contains(q.Files, path) {
			q.Files = append(q.Files, path)
		}
		return is
	}
	if pci != nil {
		host.PCI = func(address string) *vmtypes.PCIDevice {
			d := pci(address)
			if d != nil && !slices.Contains(q.PCI, address) {
				q.PCI = append(q.PCI, address)
			}
			return d
		}
	}
	return &q
}

// HostFields returns the facts about a host that may influence a plan.
func HostFields(host vmtypes.Host, asked Queries) []HostField {
	var fields []HostField
	add := func(path, value string, change func(*vmtypes.Host)) {
		other := host
		change(&other)
		fields = append(fields, HostField{path, value, other})
	}
	add("host.kvm", yesNo(host.KVM), func(h *vmtypes.Host) { h.KVM = !h.KVM })
	add("host.arch", host.Arch, func(h *vmtypes.Host) { h.Arch += "x" })
	add("host.dataDir", host.DataDir, func(h *vmtypes.Host) { h.DataDir += "x" })
	add("host.runtimeDir", host.RuntimeDir, func(h *vmtypes.Host) { h.RuntimeDir += "x" })
	add("host.cloudInitImage", host.CloudInitImage, func(h *vmtypes.Host) {
		if h.CloudInitImage = "x"; host.CloudInitImage != "" {
			h.CloudInitImage = ""
		}
	})
	add("host.sysprepImage", host.SysprepImage, func(h *vmtypes.Host) {
		if h.SysprepImage = "x"; host.SysprepImage != "" {
			h.SysprepImage = ""
		}
	})
	add("host.hasDisplayPassword", yesNo(host.HasDisplayPassword),
		func(h *vmtypes.Host) { h.HasDisplayPassword = !h.HasDisplayPassword })
	topology := vmtypes.SomeTopology()
	if host.Topology != nil {
		topology = host.Topology()
	}
	with := func(change func(*vmtypes.Topology)) func(*vmtypes.Host) {
		other := topology
		change(&other)
		return func(h *vmtypes.Host) { h.Topology = func() vmtypes.Topology { return other } }
	}
	add("host.cpus", plan.CPUList(topology.CPUs), with(func(t *vmtypes.Topology) {
		t.CPUs = append([]int{9000}, t.CPUs...)
	}))
	add("host.nodes", strconv.Itoa(len(topology.Nodes)), with(func(t *vmtypes.Topology) {
		t.Nodes = append([]vmtypes.Node{{Number: 9000, CPUs: []int{9000}}}, t.Nodes...)
	}))
	add("host.hugePages", "", with(func(t *vmtypes.Topology) {
		t.HugePages = map[int64]int64{2 << 20: 1 + 2*t.HugePages[2<<20], 1 << 30: 1 + 2*t.HugePages[1<<30]}
	}))
	fields = append(fields, hardwareFields(host, topology, asked.PCI)...)
	for _, file := range asked.Files {
		add("the file "+file, "", func(h *vmtypes.Host) {
			h.Exists = func(path string) bool { return path != file && host.Exists(path) }
		})
	}
	return fields
}

// hardwareFields returns the facts about the places of CPUs, encrypted guests and PCI devices.
func hardwareFields(host vmtypes.Host, topology vmtypes.Topology, devices []string) []HostField {
	var fields []HostField
	add := func(path, value string, change func(*vmtypes.Host)) {
		other := host
		change(&other)
		fields = append(fields, HostField{path, value, other})
	}
	processors := topology.SeparateCores()
	if host.Processors != nil {
		processors = host.Processors()
	}
	add("host.processors", "", func(h *vmtypes.Host) {
		other := slices.Clone(processors)
		slices.Reverse(other)
		for i := range other {
			other[i].Core, other[i].Cache, other[i].Socket = other[i].Number/2, 9000, 9000
		}
		h.Processors = func() []vmtypes.Processor { return other }
	})
	var supported vmtypes.Confidential
	if host.Confidential != nil {
		supported = host.Confidential()
	}
	with := func(change func(*vmtypes.Confidential)) func(*vmtypes.Host) {
		other := supported
		change(&other)
		return func(h *vmtypes.Host) { h.Confidential = func() vmtypes.Confidential { return other } }
	}
	add("host.tdx", yesNo(supported.TDX), with(func(c *vmtypes.Confidential) { c.TDX = !c.TDX }))
	add("host.sev", yesNo(supported.SEV != nil), with(func(c *vmtypes.Confidential) {
		other := vmtypes.SEV{ES: true, SNP: true}
		if c.SEV != nil {
			other = vmtypes.SEV{ES: !c.SEV.ES, SNP: !c.SEV.SNP}
			other.CBitPos, other.ReducedPhysBits = c.SEV.CBitPos+1, c.SEV.ReducedPhysBits+1
		}
		c.SEV = &other
	}))
	for _, address := range devices {
		other := otherDevice(*host.PCI(address), topology)
		add("host.pci("+strconv.Quote(address)+")", "", func(h *vmtypes.Host) {
			h.PCI = func(asked string) *vmtypes.PCIDevice {
				if asked == address {
					return &other
				}
				return host.PCI(asked)
			}
		})
	}
	return fields
}

// otherDevice returns a PCI device of another kind near another NUMA node, with the same driver.
func otherDevice(d vmtypes.PCIDevice, topology vmtypes.Topology) vmtypes.PCIDevice {
	d.ClassCode, d.VendorID, d.DeviceID = "ffffff", "fffe", "fffe"
	number := d.Node
	d.Node = nil
	for _, node := range topology.Nodes {
		if number == nil || node.Number != *number {
			d.Node = &node.Number
		}
	}
	return d
}

func yesNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// Needs reports whether a line of a plan depends on a fact. text is the plan, and without is the plan with a different
// value of the fact. Needs returns false if without is "", which means that there is no such plan.
func Needs(line, text, without string) bool {
	line = strings.TrimSpace(line)
	return without != "" && countLines(without)[line] < countLines(text)[line]
}
