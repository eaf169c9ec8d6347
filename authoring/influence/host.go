package influence

import (
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

// HostFields returns the facts about a host on which a plan may depend. files are the existing files that a type has
// asked for.
func HostFields(host vmtypes.Host, files []string) []HostField {
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
	for _, file := range files {
		add("the file "+file, "", func(h *vmtypes.Host) {
			h.Exists = func(path string) bool { return path != file && host.Exists(path) }
		})
	}
	return fields
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
