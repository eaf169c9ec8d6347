package vmtypes_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// desktop returns a VM with all common devices and n disks.
func desktop(n int) vmspec.Spec {
	spec := vmspec.Spec{
		Name: "bench", UUID: "4b1c5d3e-0000-4000-8000-000000000001", UseTPM: true, Firmware: vmspec.FirmwareUEFI4M,
		MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 4 * vmspec.GiB, Accelerator: vmspec.AcceleratorTCG,
		Network: []vmspec.Network{{Type: vmspec.NetworkUser}}, Display: &vmspec.Display{Spice: &vmspec.Spice{}},
	}
	for i := range n {
		spec.Drives = append(spec.Drives, vmspec.Drive{File: fmt.Sprintf("/images/%d.img", i)})
	}
	return spec.WithDefaults()
}

func benchHost() vmtypes.Host {
	host := emptyHost()
	host.Exists = func(string) bool { return true }
	host.CloudInitImage = "/run/vm/cloud-init.img"
	return host
}

// BenchmarkCold measures the work of a runner: load the standard type once and call it.
func BenchmarkCold(b *testing.B) {
	b.ReportAllocs()
	spec, host := desktop(1), benchHost()
	for b.Loop() {
		library, err := vmtypes.Open("")
		require.NoError(b, err)
		vmType, err := library.Load(b.Context(), "standard")
		require.NoError(b, err)
		_, err = vmType.Launch(b.Context(), spec, host)
		require.NoError(b, err)
	}
}

// BenchmarkWarm measures a call of a loaded type.
func BenchmarkWarm(b *testing.B) {
	library, err := vmtypes.Open("")
	require.NoError(b, err)
	vmType, err := library.Load(b.Context(), "standard")
	require.NoError(b, err)
	for _, n := range []int{1, 10, 100, 1000} {
		spec, host := desktop(n), benchHost()
		b.Run(fmt.Sprintf("disks=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err = vmType.Launch(b.Context(), spec, host)
				require.NoError(b, err)
			}
		})
	}
}
