package handover

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The allowed pause is raised every two passes up to its bound. The migration is given up only after QEMU has reached
// its maximum slowdown of the guest and five more passes bring no progress.
func TestAMigrationThatDoesNotConverge(t *testing.T) {
	t.Parallel()
	c := &convergence{bounds: Bounds{Downtime: 150 * time.Millisecond}}
	require.Equal(t, 50*time.Millisecond, c.firstDowntime())
	var m Migration
	steps := map[int64]time.Duration{}
	for m.RAM.Passes = 1; m.RAM.Passes < 20; m.RAM.Passes++ {
		m.Status, m.Throttle = "active", min(int(10*m.RAM.Passes), slowest)
		for range 3 { // queries are more frequent than passes
			downtime, err := c.nextDowntime(m)
			if err != nil {
				require.Equal(t, map[int64]time.Duration{2: 100 * time.Millisecond, 4: 150 * time.Millisecond}, steps)
				require.EqualValues(t, 10, m.RAM.Passes)
				require.ErrorContains(t, err, "slowed down by 99%, and may be paused for 150ms")
				return
			}
			if downtime != 0 {
				steps[m.RAM.Passes] = downtime
			}
		}
	}
	require.Fail(t, "it is not given up")
}

// A bound below the first pause is kept, and a copy that has ended isn't judged.
func TestBoundsAreKept(t *testing.T) {
	t.Parallel()
	c := &convergence{bounds: Bounds{Downtime: 20 * time.Millisecond}}
	require.Equal(t, 20*time.Millisecond, c.firstDowntime())
	m := Migration{Status: "pre-switchover", Throttle: slowest}
	m.RAM.Passes = 100
	downtime, err := c.nextDowntime(m)
	require.NoError(t, err)
	require.Zero(t, downtime)
	m.Status = "active"
	_, err = c.nextDowntime(m)
	require.Error(t, err)
}
