package apply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPaceSavesNoTurns(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	p := pace{Rate: Rate{time.Second, 2}}
	var got []time.Duration
	for range 4 {
		got = append(got, p.reserveTurn(noon).Sub(noon))
	}
	require.Equal(t, []time.Duration{0, 0, time.Second, 2 * time.Second}, got)
	later := noon.Add(time.Minute)
	require.Equal(t, later, p.reserveTurn(later))
	require.Equal(t, later, p.reserveTurn(later), "no more than the burst was saved")
	require.Equal(t, later.Add(time.Second), p.reserveTurn(later))
}
