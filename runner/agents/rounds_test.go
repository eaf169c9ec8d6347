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
		pauses = append(pauses, r.next(answered)/time.Second)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 5, 15, 60, 60, 1, 2, 60}, pauses)
	for range 100 {
		require.LessOrEqual(t, r.next(false), longPause)
	}
	require.Equal(t, longPause, r.next(false))
}
