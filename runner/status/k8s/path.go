package k8s

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// A Change is a RestartAwaitingChange of the resource.
type Change = vmstatus.Change

// renamed maps paths of the configuration to places in the resource with another name or parent. Everything below
// a path moves with it. An empty place means that the resource lacks the field.
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

// placeInResource returns the place in the resource for a path of the configuration, and the rest of the path that
// lacks a field there. Networks and disks have other fields in the resource, so the whole item is the place, and for
// example "bridge" is the rest.
func placeInResource(path string) (at, rest string) {
	switch item, below, _ := strings.Cut(path, "]."); {
	case below == "bootindex":
	case strings.HasPrefix(path, "vm.network[") && (below == "filter" || strings.HasPrefix(below, "lease")):
		return "spec.virtualMachineIPAddressName", below // the source of the manager's value
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

// Pending returns the changes in the form of the resource: one for each path, relative to spec. For an item with
// other field names in the resource, a value is an object with the names of the configuration.
func Pending(changes []status.Change) []Change {
	var all []Change
	for _, c := range changes {
		at, rest := placeInResource(cleanText(c.Path, longestValue))
		at = strings.TrimPrefix(at, "spec.")
		next := Change{
			Path: at, Operation: c.Operation, CurrentValue: boundValue(valueUnder(rest, sizeAt(at, c.CurrentValue))),
			DesiredValue: boundValue(valueUnder(rest, sizeAt(at, c.DesiredValue))),
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
		have.CurrentValue = joinValues(have.CurrentValue, next.CurrentValue)
		have.DesiredValue = joinValues(have.DesiredValue, next.DesiredValue)
	}
	if more := len(all) - mostPending; more > 0 {
		all = append(all[:mostPending-1],
			Change{Path: "...", Operation: "replace", DesiredValue: fmt.Sprintf("%d more changes", more+1)})
	}
	return all
}

// Awaiting returns a function that reports whether a change of the resource, at a path relative to spec, is one of the
// changes that need a restart, or contains or is part of one.
func Awaiting(later []status.Change) func(path string) bool {
	var places []string
	for _, c := range later {
		at, _ := placeInResource(c.Path)
		places = append(places, strings.TrimPrefix(at, "spec."))
	}
	within := func(path, other string) bool {
		rest, is := strings.CutPrefix(path, other)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return func(path string) bool {
		return slices.ContainsFunc(places, func(at string) bool { return within(path, at) || within(at, path) })
	}
}

// cleanLines returns QEMU's arguments in the form of the resource.
func cleanLines(arguments []string) []string {
	var all []string
	for _, a := range arguments[:min(len(arguments), mostPending)] {
		all = append(all, cleanText(a, 2*longestValue))
	}
	return all
}

// sizeAt formats a memory size like the resource.
func sizeAt(at string, value any) any {
	text, ok := value.(string)
	if !ok || at != "vm.maximumRam" && at != "vm.currentRam" {
		return value
	}
	if size, err := vmspec.ParseBytes(text); err == nil {
		return formatQuantity(int64(size))
	}
	return value
}

// valueUnder names a value with a key if the path doesn't name it.
func valueUnder(key string, value any) any {
	if key == "" || value == nil {
		return value
	}
	return map[string]any{key: value}
}

// joinValues merges two values of the same place; if they are not objects, the first stays.
func joinValues(a, b any) any {
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
	return boundValue(all)
}
