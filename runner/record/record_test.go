package record

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
)

// The type of a machine that runs is in a file beside its record, or in the record itself
// if an older runner made it.
func TestTheTypeOfAMachineThatRuns(t *testing.T) {
	t.Parallel()
	const vmType = "VM type mine.star\n\n-- mine.star --\n" +
		"def launch(vm, host):\n    \"\"\"As it was.\"\"\"\n    return part()\n"
	old, dir := Machine{VMType: vmType}, t.TempDir()
	p, err := old.pin(dir)
	require.NoError(t, err)
	require.Equal(t, vmType, string(p.Archive))

	_, err = new(Machine).pin(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, WriteType(&prepare.VM{RuntimeDir: dir, Pin: p}))
	for unpinned, kept := range map[bool]bool{true: false, false: true} {
		again, err := (&Machine{Unpinned: unpinned}).pin(dir)
		require.NoError(t, err)
		require.Equal(t, p.Archive, again.Archive)
		require.Equal(t, kept, again.Kept)
	}
}
