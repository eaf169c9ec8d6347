package objects

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
)

// The size of a VM is what the runner makes of its definition.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, machine := range []v1.VM{
		{MaximumCPUs: new(int32(4)), MaximumRAM: new(resource.MustParse("2Gi"))},
		{
			MaximumCPUs: new(int32(4)), CurrentCPUs: new(int32(3)),
			MaximumRAM: new(resource.MustParse("1G")), CurrentRAM: new(resource.MustParse("512Mi")),
		},
		{CPUTopology: &v1.CPUTopology{Sockets: 2, CoresPerDie: 3}, MaximumRAM: new(resource.MustParse("1Gi"))},
		{
			CPUTopology: &v1.CPUTopology{Sockets: 1, DiesPerSocket: 2, CoresPerDie: 2, ThreadsPerCore: 2},
			CurrentCPUs: new(int32(5)), MaximumRAM: new(resource.MustParse("1Gi")),
		},
	} {
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{VM: machine}}
		of, err := size(vm)
		require.NoError(t, err)
		want := of.WithDefaults()
		is, err := Size(vm)
		require.NoError(t, err)
		require.Equal(t, []any{want.MaximumCPUs, want.CurrentCPUs, want.MaximumRAM, want.CurrentRAM},
			[]any{is.MaximumCPUs, is.CurrentCPUs, is.MaximumRAM, is.CurrentRAM})
	}
}
