package prepare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

// A kernel without memory overcommit refuses too much RAM.
func TestMoreRAMThanTheComputerHas(t *testing.T) {
	t.Parallel()
	const has = uint64(23 * vmspec.GiB)
	for _, c := range []struct {
		wanted vmspec.Bytes
		swap   uint64
		mode   string
		want   string
	}{
		{900 * vmspec.GiB, 0, "0", "is 900 GiB, and this computer has 23.0 GiB"},
		{24 * vmspec.GiB, uint64(vmspec.GiB / 2), "2", "is 24 GiB, and this computer has 23.0 GiB and 0.5 GiB of swap"},
		{24 * vmspec.GiB, uint64(vmspec.GiB), "0", ""},
		{900 * vmspec.GiB, 0, alwaysOvercommits, ""},
	} {
		fault := ramFault(c.wanted, has, c.swap, c.mode)
		if c.want == "" {
			require.Nil(t, fault)
			continue
		}
		require.Equal(t, c.want, fault.Message)
	}
}
