package supervisor

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	for deaths, seconds := range map[int]time.Duration{
		0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: 16, 7: 30, 8: 30,
		1 << 40: 30,
	} {
		require.Equal(t, seconds*time.Second, restartDelay(deaths), "after %d deaths", deaths)
	}
}

// A runner that has lived for a minute is restarted immediately, regardless of earlier quick deaths.
func TestDeathsAreForgivenAfterAMinute(t *testing.T) {
	t.Parallel()
	for lived, quick := range map[time.Duration]int{0: 6, time.Minute - time.Millisecond: 6, time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			again := time.NewTimer(time.Hour)
			s := supervisor{
				Spec:  Spec{Log: slog.New(slog.DiscardHandler)},
				again: again, settled: time.NewTimer(time.Hour), started: time.Now(), quick: 5,
			}
			time.Sleep(lived)
			died := time.Now()
			s.replaceRunner()
			require.Equal(t, quick, s.quick, "a runner that lived %s", lived)
			require.Equal(t, restartDelay(quick), (<-again.C).Sub(died))
			require.True(t, s.keeps)
		})
	}
}
