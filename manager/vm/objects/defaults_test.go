package objects_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

// sameKey maps the fields of spec.vm with a default to the corresponding keys of the runner's configuration; "" marks
// fields that the runner doesn't receive.
var sameKey = map[string]string{
	"cpuTopology.sockets":                          "vm.sockets",
	"cpuTopology.diesPerSocket":                    "vm.diesPerSocket",
	"cpuTopology.coresPerDie":                      "vm.coresPerDie",
	"cpuTopology.threadsPerCore":                   "vm.threadsPerCore",
	"networks[].tap.bridge":                        "vm.network[].bridge",
	"networks[].tap.device":                        "vm.network[].device",
	"networks[].user.device":                       "vm.network[].device",
	"networks[].masquerade.device":                 "vm.network[].device",
	"networks[].user.ports[].protocol":             "vm.network[].ports[].protocol",
	"disks[].volumeClaimTemplate.spec.accessModes": "",
	"disks[].volumeClaimTemplate.spec.volumeMode":  "",
	"display.outputs":                              "vm.display.outputs",
	"display.spice.port":                           "vm.display.spice.port",
	"display.spice.generateSecret":                 "",
	"display.spice.usbRedirects":                   "vm.display.spice.usbRedirects",
}

// otherDefault lists the resource's defaults that differ from the runner's, with the reason.
var otherDefault = map[string]string{
	"cpuTopology.sockets":              "1: VM-Operator's resource; QEMU chooses the same for one that is not given",
	"networks[].tap.bridge":            "br0: the runner's is the same, for a tap",
	"networks[].tap.device":            "virtio-net: VM-Operator's resource; QEMU's alias of virtio-net-pci",
	"networks[].user.device":           "virtio-net: VM-Operator's resource; QEMU's alias of virtio-net-pci",
	"networks[].masquerade.device":     "virtio-net: as of the other networks",
	"networks[].user.ports[].protocol": "TCP: as in Kubernetes; the runner's is tcp",
}

// A field omitted from a VM has the same effect as a key omitted from the runner's configuration.
func TestDefaultsOfTheResourceAreTheRunners(t *testing.T) {
	t.Parallel()
	schema, err := schemaOfVMs()
	require.NoError(t, err)
	defaults := map[string]string{}
	collectDefaults(defaults, "", schema.Properties["spec"].Properties["vm"])
	runners := map[string]string{}
	for _, d := range vmspec.Defaults() {
		runners[d.Path] = d.Value
	}
	require.Equal(t, slices.Sorted(maps.Keys(sameKey)), slices.Sorted(maps.Keys(defaults)),
		"each field with a default is listed here")
	for field, value := range defaults {
		key := sameKey[field]
		if key == "" {
			continue
		}
		runner, is := runners[key]
		require.True(t, is, "%s: there is no key %s", field, key)
		if why, listed := otherDefault[field]; listed {
			require.NotEqual(t, runner, value, "%s is listed as different: %s", field, why)
		} else {
			require.Equal(t, runner, value, field)
		}
	}
}

// collectDefaults collects the defaults in a schema by their paths.
func collectDefaults(into map[string]string, path string, of properties) {
	if of.Default != nil {
		into[path] = fmt.Sprint(of.Default)
	}
	for name, property := range of.Properties {
		collectDefaults(into, strings.TrimPrefix(path+"."+name, "."), property)
	}
	if of.Items != nil {
		collectDefaults(into, path+"[]", *of.Items)
	}
}
