package runner_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner"
	"vmop/runner/prepare"
	"vmop/test/invariants"
)

// A panic of the runner does not end the guest: the exiting runner leaves the machine unchanged.
func TestPanicLeavesTheMachine(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare")
	v.onPaused = func(context.Context, *prepare.VM) error { panic("a fault") }
	require.PanicsWithValue(t, "a fault", func() { _, _ = runner.Run(t.Context(), v.options()) })
	qemu := invariants.OneQEMU(t, v.dir)
	require.FileExists(t, v.path("run", "monitor.sock"))
	require.NoError(t, syscall.Kill(qemu, syscall.SIGKILL))
	invariants.NoProcess(t, v.dir)
}
