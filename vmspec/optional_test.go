package vmspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

func TestOptionalSections(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"vm.display", "vm.display.spice", "vm.display.vnc", "vm.drives[].limits", "vm.kernel", "vm.network[].allPorts",
		"vm.network[].lease", "vm.network[].lease.nameservers",
	}, vmspec.OptionalSections())
	for path, want := range map[string]string{
		"vm.display":             "vm.display is None if the VM has no display; test it first",
		"vm.display.spice":       "vm.display.spice is None if the display has no spice; test it first",
		"vm.network[2].lease":    "vm.network[2].lease is None if the network has no lease; test it first",
		"vm.network[].lease":     "vm.network[].lease is None if the network has no lease; test it first",
		"vm.serialConsole":       "",
		"vm.network[].bootindex": "",
	} {
		require.Equal(t, want, vmspec.AbsentSection(path))
	}
}
