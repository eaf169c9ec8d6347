package influence

import (
	"strings"

	"vmop/vmtypes"
)

// A HostField is one fact about a computer, and what it would be like if that were
// different.
type HostField struct {
	Path, Value string
	Host        vmtypes.Host
}

// HostFields returns the facts about a host on which a plan may depend. files are
// those that a type has asked for and that exist.
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
	add("host.hasDisplayPassword", yesNo(host.HasDisplayPassword),
		func(h *vmtypes.Host) { h.HasDisplayPassword = !h.HasDisplayPassword })
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

// Needs reports whether a line of a plan is another one in the plan that was made without a
// fact; "" means no plan, and an unknown result.
func Needs(line, text, without string) bool {
	line = strings.TrimSpace(line)
	return without != "" && count(without)[line] < count(text)[line]
}
