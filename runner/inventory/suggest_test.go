package inventory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// A new VM gets a part of the computer, but at least what its type needs.
func TestSizesSuitTypeAndComputer(t *testing.T) {
	t.Parallel()
	const gib = vmspec.GiB
	windows := vmtypes.Sizing{
		Minimum:   vmtypes.NewSizes{CPUs: 2, RAM: 4 * gib, Disk: 64 * gib},
		Suggested: vmtypes.NewSizes{CPUs: 4, RAM: 8 * gib},
	}
	for _, row := range []struct {
		of   vmtypes.Sizing
		cpus int
		ram  vmspec.Bytes
		want vmtypes.NewSizes
	}{
		{vmtypes.Sizing{}, 16, 64 * gib, vmtypes.NewSizes{CPUs: 4, RAM: 4 * gib, Disk: 20 * gib}},
		{vmtypes.Sizing{}, 2, 15*gib + 1, vmtypes.NewSizes{CPUs: 2, RAM: 3 * gib, Disk: 20 * gib}},
		{vmtypes.Sizing{}, 1, 0, vmtypes.NewSizes{CPUs: 1, RAM: gib, Disk: 20 * gib}},
		{windows, 16, 64 * gib, vmtypes.NewSizes{CPUs: 4, RAM: 8 * gib, Disk: 64 * gib}},
		{windows, 1, 6 * gib, vmtypes.NewSizes{CPUs: 2, RAM: 4 * gib, Disk: 64 * gib}},
		{windows, 2, 12 * gib, vmtypes.NewSizes{CPUs: 2, RAM: 6 * gib, Disk: 64 * gib}},
	} {
		require.Equal(t, row.want, suggestSizes(row.of, row.cpus, row.ram))
	}
}
