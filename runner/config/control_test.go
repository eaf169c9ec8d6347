package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

func TestControlPort(t *testing.T) {
	t.Parallel()
	of := func(text string) func(string) string {
		return func(name string) string {
			require.Equal(t, "CONTROL_PORT", name)
			return text
		}
	}
	for text, want := range map[string]*int{"": nil, "0": new(0), "7443": new(7443)} {
		port, err := config.ControlPort(of(text))
		require.NoError(t, err)
		require.Equal(t, want, port)
	}
	for _, wrong := range []string{"-1", "65536", "https"} {
		_, err := config.ControlPort(of(wrong))
		require.ErrorContains(t, err, wrong)
	}
}
