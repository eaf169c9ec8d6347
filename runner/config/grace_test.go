package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	of := func(text string) func(string) string {
		return func(name string) string { return map[string]string{"POD_GRACE_PERIOD": text}[name] }
	}
	period, err := GracePeriod(of("935"))
	require.NoError(t, err)
	require.Equal(t, 935*time.Second, period)
	period, err = GracePeriod(of(""))
	require.NoError(t, err)
	require.Zero(t, period)
	for _, text := range []string{"15m", "-1", "99999999999999"} {
		_, err = GracePeriod(of(text))
		require.ErrorContains(t, err, "POD_GRACE_PERIOD is \""+text+"\": must be whole seconds")
	}
}
