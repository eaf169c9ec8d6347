package k8s

import (
	"fmt"
	"slices"
	"strings"

	"vmop/runner/status"
)

// A Change is a PendingChange of the resource.
type Change struct {
	Path      string `json:"path"`
	Operation string `json:"operation"`
	Current   string `json:"current,omitempty"`
	Desired   string `json:"desired,omitempty"`
}

// renamed says where in the resource is what has another name or place in the
// configuration. What is below goes with it. An empty place means that the resource
// has no field for it.
var renamed = []struct{ path, at string }{
	{"vmType", "spec.vmType.source"},
	{"cloudInit", "spec.cloudInit"},
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

// Pending returns the changes as they are in the resource: one for each path.
func Pending(changes []status.Change) []Change {
	var all []Change
	for _, c := range changes {
		at, rest := placeOf(clean(c.Path, longestValue))
		next := Change{at, c.Operation, labelled(rest, inWords(c.Current)), labelled(rest, inWords(c.Desired))}
		i := slices.IndexFunc(all, func(have Change) bool { return have.Path == at })
		if i < 0 {
			all = append(all, next)
			continue
		}
		have := &all[i]
		if have.Operation != next.Operation {
			have.Operation = "replace"
		}
		have.Current, have.Desired = joined(have.Current, next.Current), joined(have.Desired, next.Desired)
	}
	if more := len(all) - mostPending; more > 0 {
		all = append(all[:mostPending-1],
			Change{Path: "spec", Operation: "replace", Desired: fmt.Sprintf("%d more changes", more+1)})
	}
	return all
}

// labelled says what a value is of, where the path doesn't.
func labelled(key, value string) string {
	if key == "" || value == "" {
		return value
	}
	return key + ": " + value
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return clean(a+", "+b, longestText)
}
