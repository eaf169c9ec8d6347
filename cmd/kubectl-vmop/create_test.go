package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A new Windows VM that starts from a CD without drivers has devices that Windows' setup supports. Options that the
// user sets, drivers, and a class change that.
func TestDriversOfNewVMs(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]draft{
		`{"diskBus":"sata","networkCard":"e1000e"}`:   {},
		`{"diskBus":"virtio","networkCard":"e1000e"}`: {options: []string{"diskBus=virtio"}},
		`{"virtioDrivers":"v.iso"}`:                   {options: []string{"virtioDrivers=v.iso"}},
		`{"diskBus":"sata"}`:                          {options: []string{"diskBus=sata"}, vmClass: "desk"},
	} {
		d.name, d.vmType, d.ram, d.cd = "win", "windows", "8Gi", "win11.iso"
		vm, err := d.draftVM(t.Context())
		require.NoError(t, err)
		require.JSONEq(t, want, string(vm.Spec.VM.Options.Raw))
	}
	vm, err := (&draft{name: "web", vmType: "standard", ram: "1Gi", cd: "debian.iso"}).draftVM(t.Context())
	require.NoError(t, err)
	require.Nil(t, vm.Spec.VM.Options)
}
