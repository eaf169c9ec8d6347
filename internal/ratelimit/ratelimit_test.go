package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/ratelimit"
)

func TestABurstAndThenOnePerInterval(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Limit{Burst: 2, Every: time.Minute}
	var log []string
	for _, minute := range []float64{0, 0, 0, 0.5, 1, 1.5, 1.5, 10, 10, 10} {
		withheld, ok := limit.Allow(time.Unix(0, 0).Add(time.Duration(minute * float64(time.Minute))))
		log = append(log, fmt.Sprint(minute, " ", ok, " ", withheld))
	}
	require.Equal(t, []string{
		"0 true 0", "0 true 0", "0 false 0", "0.5 false 0", "1 true 2", "1.5 false 0", "1.5 false 0",
		"10 true 2", "10 true 0", "10 false 0",
	}, log)
}
