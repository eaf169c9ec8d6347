package guest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABudget(t *testing.T) {
	t.Parallel()
	b := budget{every: time.Second, burst: 3}
	now := time.Now()
	for range 3 {
		require.Zero(t, b.spendOne(now))
	}
	require.Equal(t, time.Second, b.spendOne(now))
	require.Equal(t, time.Second, b.spendOne(now), "asking costs nothing")
	require.Zero(t, b.spendOne(now.Add(time.Second)))
	require.Equal(t, time.Second, b.spendOne(now.Add(time.Second)))
	later := now.Add(time.Hour)
	for range 3 {
		require.Zero(t, b.spendOne(later))
	}
	require.Equal(t, time.Second, b.spendOne(later), "nothing is saved beyond the burst")
}
