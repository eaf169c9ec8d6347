package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// A process's environment contains common variables and the plan's variables, but not the runner's own variables.
func TestEnvironmentOfAProcess(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	t.Setenv("QEMU_AUDIO_DRV", "none")
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("LANGUAGES", "not LANGUAGE")
	got := environmentOf([]plan.Variable{{Name: "OWN", Value: "1"}})
	require.Subset(t, got, []string{"LC_ALL=C", "QEMU_AUDIO_DRV=none", "OWN=1"})
	for _, variable := range got {
		require.NotRegexp(t, "^(NOTIFY_SOCKET|AWS_SECRET_ACCESS_KEY|LANGUAGES)=", variable)
	}
}
