package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

func TestReceive(t *testing.T) {
	t.Parallel()
	of := func(migration, ip string) func(string) string {
		return func(name string) string {
			return map[string]string{"RECEIVE_MIGRATION": migration, "POD_IP": ip}[name]
		}
	}
	migration, address, err := config.Receive(of("u-1", "fd00::7"))
	require.NoError(t, err)
	require.Equal(t, "u-1", migration)
	require.Equal(t, "[fd00::7]:0", address)
	migration, _, err = config.Receive(of("", ""))
	require.NoError(t, err)
	require.Empty(t, migration)
	_, _, err = config.Receive(of("u-1", ""))
	require.ErrorContains(t, err, `POD_IP is "", but RECEIVE_MIGRATION is set: must be the pod's address`)
}
