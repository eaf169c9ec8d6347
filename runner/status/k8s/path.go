package k8s

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"vmop/runner/status"
	"vmop/vmspec"
)

// A Change is a RestartAwaitingChange of the resource.
type Change struct {
	Path         string `json:"path"`
	Operation    string `json:"operation"`
	CurrentValue any    `json:"currentValue,omitempty"`
	DesiredValue any    `json:"desiredValue,omitempty"`
}

// renamed says where in the resource is what has another name or place in the
// configuration. What is below goes with it. An empty place means that the resource
// has no field for it.
var renamed = []struct{ path, at string }{
	{"vmType", "spec.vmType.source"},
	{"cloudInit.userDataFile", "spec.cloudInit.userDataFrom"},
	{"cloudInit.networkConfigFile", "spec.cloudInit.networkDataFrom"},
	{"cloudInit", "spec.cloudInit"},
	{"provisioning.userDataFile", "spec.provisioning.userDataRef"},
	{"provisioning", "spec.provisioning"},
	{"sysprep", "spec.provisioning.sysprepRef"},
	{"display-password", "spec.vm.display.spice.generateSecret"},
	{"vm.display.withoutPassword", "spec.vm.display.spice.generateSecret"},
	{"vm.name", "metadata.name"},
	{"vm.uuid", "spec.vm.machineUuid"},
	{"vm.machineType", ""},
	{"vm.sockets", "spec.vm.cpuTopology.sockets"},
	{"vm.diesPerSocket", "spec.vm.cpuTopology.diesPerSocket"},
	{"vm.coresPerDie", "spec.vm.cpuTopology.coresPerDie"},
	{"vm.threadsPerCore", "spec.vm.cpuTopology.threadsPerCore"},
	{"vm.serialConsole", ""},
	{"vm.network", "spec.vm.networks"},
	{"vm.drives", "spec.vm.disks"},
	{"vm", "spec.vm"},
}

// placeOf returns where in the resource is what the configuration has at a path,
// and what of the path has no field of its own there: of a network and of a disk the
// resource has other fields, so the whole item is named, and "bridge" is left.
func placeOf(path string) (at, rest string) {
	switch item, below, _ := strings.Cut(path, "]."); {
	case below == "bootindex":
	case strings.HasPrefix(path, "vm.network[") && (below == "filter" || strings.HasPrefix(below, "lease")):
		return "spec.virtualMachineIPAddressName", below // by which the manager gives it
	case strings.HasPrefix(path, "vm.network[") || strings.HasPrefix(path, "vm.drives["):
		path, rest = item, below
		if below != "" {
			path += "]"
		}
	case path == "vm.display.spice.address" || path == "vm.display.vnc.address":
		path, rest = strings.TrimSuffix(path, ".address"), "address"
	}
	for _, r := range renamed {
		below, is := strings.CutPrefix(path, r.path)
		switch {
		case !is || below != "" && below[0] != '.' && below[0] != '[':
		case r.at == "":
			return path, rest
		default:
			return r.at + below, rest
		}
	}
	return path, rest
}

// Pending returns the changes as they are in the resource: one for each path, which is
// below spec. Of an item whose fields have other names there, a value is an object with
// those of the configuration.
func Pending(changes []status.Change) []Change {
	var all []Change
	for _, c := range changes {
		at, rest := placeOf(clean(c.Path, longestValue))
		at = strings.TrimPrefix(at, "spec.")
		next := Change{
			at, c.Operation, bounded(under(rest, sized(at, c.CurrentValue))),
			bounded(under(rest, sized(at, c.DesiredValue))),
		}
		i := slices.IndexFunc(all, func(have Change) bool { return have.Path == at })
		if i < 0 {
			all = append(all, next)
			continue
		}
		have := &all[i]
		if have.Operation != next.Operation {
			have.Operation = "replace"
		}
		have.CurrentValue = joined(have.CurrentValue, next.CurrentValue)
		have.DesiredValue = joined(have.DesiredValue, next.DesiredValue)
	}
	if more := len(all) - mostPending; more > 0 {
		all = append(all[:mostPending-1],
			Change{Path: "...", Operation: "replace", DesiredValue: fmt.Sprintf("%d more changes", more+1)})
	}
	return all
}

// cleanLines returns QEMU's arguments as they are in the resource.
func cleanLines(arguments []string) []string {
	var all []string
	for _, a := range arguments[:min(len(arguments), mostPending)] {
		all = append(all, clean(a, 2*longestValue))
	}
	return all
}

// sized writes a size of memory as the resource does.
func sized(at string, value any) any {
	text, ok := value.(string)
	if !ok || at != "vm.maximumRam" && at != "vm.currentRam" {
		return value
	}
	if size, err := vmspec.ParseBytes(text); err == nil {
		return quantity(int64(size))
	}
	return value
}

// under says what a value is of, where the path doesn't.
func under(key string, value any) any {
	if key == "" || value == nil {
		return value
	}
	return map[string]any{key: value}
}

// joined puts two values of the same place together; of one that has no parts, the first stays.
func joined(a, b any) any {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	switch {
	case a == nil:
		return b
	case !isMap || !both:
		return a
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	return bounded(all)
}
