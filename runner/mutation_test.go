package runner_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/status"
	"vmop/runner/usernet"
	"vmop/vmspec"
)

// What becomes of a change of the configuration of a VM that runs.
const (
	idle    = "changes nothing that the machine was started with"
	listed  = "awaits a restart"
	live    = "is made at once"
	refused = "is refused"
)

// A mutation changes one value of the configuration of everything (see
// TestEveryFieldOfARunningVM), and those that must change with it.
type mutation struct {
	path string
	to   any // nil: it is left out
	also map[string]any
	what string
	// seen tells, of what is live, whether it has been made.
	seen func(v *vm) bool
}

// mutations has one for each field of the section of the runner and the vm
// section. PATH is the VM's folder.
var mutations = []mutation{
	{path: "dataDir", to: "other", what: listed},
	{path: "runtimeDir", to: "other", what: listed},
	{path: "namespace", to: "other", what: idle},        // of a custom resource
	{path: "imageRepository", to: "images", what: idle}, // no option is a file
	{path: "nbdCertificates", to: "nbd", what: listed},  // QEMU may read a folder more
	{path: "drivesRevision", to: 3, what: idle},         // of which there are none
	{path: "cloudInit", to: map[string]any{"userData": map[string]any{"hostname": "other"}}, what: listed},
	{path: "provisioned", to: true, what: idle},            // only names its fields
	{path: "sysprep.directory", to: "gone", what: refused}, // without a file
	{path: "guestShutdownStops", to: true, what: idle},     // counts when the guest shuts down
	{path: "crashStops", to: true, what: idle},             // counts when it crashes
	{path: "vmType", to: "bare", what: listed},
	{path: "updateVmType", to: true, what: idle}, // the type is the same
	{path: "vm.name", to: "other", what: refused},
	{path: "vm.uuid", to: "4b1c5d3e-0000-4000-8000-000000000001", what: listed},
	{path: "vm.machineType", to: "pc-q35-7.1", what: listed},
	{path: "vm.accelerator", to: "none", what: listed},
	{path: "vm.firmware", to: "uefi-4m", what: listed},
	{path: "vm.bootMenu", to: true, what: listed},
	{path: "vm.kernel.image", to: "other", what: listed},
	{path: "vm.kernel.initrd", what: listed},
	{path: "vm.kernel.commandLine", to: "quiet", what: listed},
	{path: "vm.useTpm", to: true, what: listed},
	{path: "vm.cpuModel", to: "qemu64", what: listed},
	{path: "vm.cpuModel", to: "host", what: idle}, // it is max without KVM
	{path: "vm.maximumCpus", to: 8, also: map[string]any{"vm.sockets": 4}, what: listed},
	{path: "vm.sockets", to: 1, also: map[string]any{"vm.coresPerDie": 4}, what: listed},
	{path: "vm.diesPerSocket", to: 1, what: listed},
	{path: "vm.coresPerDie", to: 4, also: map[string]any{"vm.sockets": 1}, what: listed},
	{path: "vm.threadsPerCore", to: 1, what: listed},
	{path: "vm.maximumRam", to: "512 MiB", what: listed},
	{path: "vm.rtcBase", to: "localtime", what: listed},
	{path: "vm.rtcClock", to: "host", what: listed},
	{path: "vm.network[0].type", to: "tap", also: tap, what: listed},
	{path: "vm.network[0].device", to: "e1000e", what: listed},
	{path: "vm.network[0].mac", to: "52:54:00:00:00:01", what: listed},
	{path: "vm.network[0].bridge", to: "br1", also: tap, what: listed},
	{path: "vm.network[0].ifname", to: "tap7", also: tap, what: listed},
	leased("lease.address", "10.66.10.15/24"),
	leased("lease.gateway", "10.66.10.1"),
	leased("lease.nameservers.addresses[0]", "10.66.10.1"),
	leased("lease.nameservers.search[0]", "example.org"),
	leased("lease.routes[0].to", "10.8.0.0/16"),
	leased("lease.routes[0].via", "10.66.10.3"),
	leased("filter", false),
	{path: "vm.network[0].hostLoopback", to: true, also: map[string]any{"vm.network[0].type": "passt"}, what: listed},
	{path: "vm.network[0].net", to: "10.9.0.0/24", what: listed},
	{
		path: "vm.network[0].allPorts.keep[0]", to: 80,
		also: map[string]any{"vm.network[0].type": "masquerade", "vm.network[0].ifname": "tap0"}, what: listed,
	},
	forwarded("protocol", "udp", "udp 127.0.0.1:9999 9999"),
	forwarded("address", "127.0.0.2", "tcp 127.0.0.2:9999 9999"),
	forwarded("host", 9999, "tcp 127.0.0.1:9999 9999"),
	forwarded("guest", 22, "tcp 127.0.0.1:9999 22"),
	{path: "vm.drives[0].type", to: "ide-cd", also: map[string]any{
		"vm.drives[0].bus": "ide", "vm.drives[0].serial": "a", "vm.drives[1].serial": "b",
	}, what: listed},
	{path: "vm.drives[0].bootindex", to: 7, what: listed},
	{path: "vm.drives[0].file", to: "other.img", also: map[string]any{"vm.drives[0].serial": "a"}, what: listed},
	{path: "vm.drives[0].device", to: "/dev/other", also: map[string]any{
		"vm.drives[0].file": nil, "vm.drives[0].serial": "a",
	}, what: listed},
	{path: "vm.drives[0].resource", to: "PATH/other.img", also: map[string]any{
		"vm.drives[0].file": nil, "vm.drives[0].serial": "a",
	}, what: listed},
	{path: "vm.drives[0].format", to: "qcow2", what: listed},
	{path: "vm.drives[0].size", to: "64 MiB", what: idle},      // the file becomes larger, and so does the disk
	{path: "vm.drives[0].source", to: "debian/12", what: idle}, // the file is there
	{path: "vm.drives[0].sourceChecksum", to: "sha256:" + strings.Repeat("0", 64), also: map[string]any{
		"vm.drives[0].source": "debian/12",
	}, what: idle},
	{path: "vm.drives[0].readOnly", to: true, what: listed},
	served("host", "127.0.0.2"), served("port", 1), served("export", "other"), served("tls", "PATH"),
	{path: "vm.drives[0].serial", to: "other", what: listed},
	{path: "vm.drives[1].bus", to: "scsi", what: listed},
	{path: "vm.drives[1].readOnly", to: true, what: idle}, // a CD is that anyway
	{path: "vm.display.outputs", to: 2, what: listed},
	{path: "vm.display.loggedInUser", to: "test", what: live, seen: func(v *vm) bool {
		return v.status().WantedUser == "test"
	}},
	{path: "vm.display.withoutPassword", to: true, what: idle},
	{path: "vm.display.spice.port", to: 5999, what: listed},
	{
		path: "vm.display.spice.address", to: "127.0.0.2", also: map[string]any{"vm.display.spice.port": 5999},
		what: listed,
	},
	{
		path: "vm.display.spice.streamingVideo", to: "filter", also: map[string]any{"vm.display.spice.port": 5999},
		what: listed,
	},
	{path: "vm.display.spice.usbRedirects", to: 1, also: map[string]any{"vm.display.spice.port": 5999}, what: listed},
	{path: "vm.display.vnc.port", to: 5999, what: listed},
	{path: "vm.display.vnc.address", to: "127.0.0.2", also: map[string]any{"vm.display.vnc.port": 5999}, what: listed},
	{path: "vm.serialConsole.enabled", to: false, what: listed},
	{path: "vm.serialConsole.log", to: "console.log", what: listed},
	{path: "vm.options.watchdog", to: "reset", what: listed},
	{path: "vm.options.other", to: 1, what: refused}, // the type declares none
	{path: "vm.drives[1].file", to: "b.iso", what: live, seen: func(v *vm) bool {
		return v.inserted("cd0") == v.path("b.iso")
	}},
	{path: "vm.drives[1].file", what: live, seen: func(v *vm) bool { return v.inserted("cd0") == "" }},
	{path: "vm.currentRam", to: "192 MiB", what: live, seen: func(v *vm) bool { return v.balloon() == 192<<20 }},
	{path: "vm.currentCpus", to: 3, what: live, seen: func(v *vm) bool { return v.running() == 3 }},
	{path: "resetCounter", to: 2, what: live, seen: func(v *vm) bool {
		return len(v.log.find("QMP event", "event", "RESET", "data", "host-qmp-system-reset")) == 1
	}},
	{path: "resource", to: "4711", what: live, seen: func(v *vm) bool {
		return v.status().Configuration.Resource == "4711"
	}},
	{path: "generation", to: 1000, what: live, seen: func(v *vm) bool {
		return v.status().Configuration.Applied == 1000
	}},
	{path: "vm.powerdownTimeout", to: 0, what: idle}, // seen when the VM is stopped
}

// forwarded gives the user network a port, of which a field has a value.
func forwarded(field string, to any, want string) mutation {
	const port = "vm.network[0].ports[0]."
	return mutation{
		path: port + field, to: to, also: map[string]any{port + "host": 9999}, what: live,
		seen: func(v *vm) bool {
			var said string
			v.query(&said, usernet.List())
			all := usernet.Parse(said)["net0"]
			if len(all) != 1 {
				return false
			}
			f := all[0]
			return want == fmt.Sprintf("%s %s:%d %d", f.Protocol, f.Address, f.Host, f.Guest)
		},
	}
}

// served adds a disk of an NBD server that isn't there, of which a field has a value.
func served(field string, to any) mutation {
	const nbd = "vm.drives[2].nbd."
	also := map[string]any{"vm.drives[2].serial": "served", nbd + "host": "127.0.0.1", nbd + "port": 2}
	delete(also, nbd+field)
	return mutation{path: nbd + field, to: to, also: also, what: live, seen: func(v *vm) bool {
		drives := v.status().Drives
		return len(drives) == 1 && drives[0].Name == "served" && drives[0].State == status.DriveFailed
	}}
}

// tap is another network than that of everything, with all that would follow by
// default.
var tap = map[string]any{"vm.network[0].type": "tap", "vm.network[0].bridge": "br0", "vm.network[0].ifname": "tap0"}

// leased makes the network a tap with a lease, of which a field has a value.
func leased(field string, to any) mutation {
	const network = "vm.network[0]."
	also := map[string]any{network + "lease.address": "10.66.10.14/24"}
	maps.Copy(also, tap)
	if field != "filter" { // it would follow
		also[network+"filter"] = true
	}
	if strings.HasPrefix(field, "lease.routes") {
		also[network+"lease.routes"] = []any{map[string]any{"to": "10.7.0.0/16", "via": "10.66.10.2"}}
	}
	return mutation{path: network + field, to: to, also: also, what: listed}
}

// fieldsOf returns the paths of the fields of a type that have no fields
// themselves, without indexes. The section cloudInit is one value here: data
// for the guest.
func fieldsOf(path string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || path == "cloudInit" {
		return []string{path}
	}
	var all []string
	for field := range t.Fields() {
		if field.IsExported() {
			all = append(all, fieldsOf(strings.TrimPrefix(path+"."+field.Tag.Get("yaml"), "."), field.Type)...)
		}
	}
	return all
}

// plainPath returns a path without indexes; a key of the options is the options.
func plainPath(path string) string {
	var plain strings.Builder
	for before := range strings.SplitSeq(path, "[") {
		if _, after, isIndex := strings.Cut(before, "]"); isIndex {
			before = after
		}
		plain.WriteString(before)
	}
	if strings.HasPrefix(plain.String(), "vm.options.") {
		return "vm.options"
	}
	return plain.String()
}

// A new field of the configuration needs a mutation, so that its author considers
// what becomes of it while the VM runs.
func TestEveryFieldHasAMutation(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	for _, path := range append(fieldsOf("", reflect.TypeFor[config.Config]()),
		fieldsOf("vm", reflect.TypeFor[vmspec.Spec]())...) {
		left[path] = true
	}
	require.Greater(t, len(left), 40)
	for _, m := range mutations {
		require.True(t, m.what != live || m.seen != nil, m.path)
		path := plainPath(m.path)
		_, known := left[path]
		require.True(t, known, "there is no field %s", m.path)
		left[path] = false
	}
	maps.DeleteFunc(left, func(_ string, open bool) bool { return !open })
	require.Empty(t, slices.Sorted(maps.Keys(left)))
}

// set returns a tree of maps and lists with another value at a path; nil
// removes it. Sections and items that are missing are made.
func set(tree any, path string, to any) any {
	key, rest := path, ""
	if i := strings.IndexAny(path, ".["); i >= 0 {
		key, rest = path[:i], strings.TrimPrefix(path[i:], ".")
	}
	if path == "" {
		return to
	}
	if strings.HasPrefix(path, "[") {
		number, rest, _ := strings.Cut(path[1:], "]")
		i, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("a path with an index: %v", err))
		}
		list, _ := tree.([]any)
		list = slices.Clone(list)
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = set(list[i], strings.TrimPrefix(rest, "."), to)
		return list
	}
	section, _ := tree.(map[string]any)
	section = maps.Clone(section)
	if section == nil {
		section = map[string]any{}
	}
	if value := set(section[key], rest, to); value != nil {
		section[key] = value
	} else {
		delete(section, key)
	}
	return section
}

// touched returns whether a change at a path comes of the mutation: it is at
// one of the mutation's, above or below.
func (m mutation) touched(path string) bool {
	within := func(a, b string) bool {
		rest, ok := strings.CutPrefix(a, b)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, own := range append(slices.Collect(maps.Keys(m.also)), m.path) {
		if within(own, path) || within(path, own) {
			return true
		}
	}
	return false
}
