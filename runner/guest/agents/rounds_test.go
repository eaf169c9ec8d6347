package agents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHowOftenTheGuestIsAsked(t *testing.T) {
	t.Parallel()
	var r rounds
	var pauses []time.Duration
	for _, answered := range []bool{false, false, false, true, true, true, true, false, false, true} {
		pauses = append(pauses, r.nextPause(answered, true)/time.Second)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 5, 15, 60, 60, 1, 2, 60}, pauses)
	for range 100 {
		require.LessOrEqual(t, r.nextPause(false, false), longPause)
	}
	require.Equal(t, longPause, r.nextPause(false, false))
}

// A guest without an address is queried more often until it has one, for a limited time.
func TestAGuestWithoutAnAddressIsAskedMoreOften(t *testing.T) {
	t.Parallel()
	var r rounds
	var pauses []time.Duration
	for n := range mostEager + 1 {
		pauses = append(pauses, r.nextPause(true, false)/time.Second)
		if n > 1 && n < mostEager-1 {
			require.EqualValues(t, 15, pauses[n])
		}
	}
	require.EqualValues(t, 60, pauses[mostEager-1])
	require.EqualValues(t, 60, pauses[mostEager])
	r = rounds{answered: 5}
	require.Equal(t, time.Minute, r.nextPause(true, true))
}
