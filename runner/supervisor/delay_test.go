package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelay(t *testing.T) {
	t.Parallel()
	for deaths, seconds := range map[int]time.Duration{
		0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: 16, 7: 30, 8: 30,
		1 << 40: 30,
	} {
		require.Equal(t, seconds*time.Second, delay(deaths), "after %d deaths", deaths)
	}
}
