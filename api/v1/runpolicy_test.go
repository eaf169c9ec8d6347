package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// What each policy makes of vm.state, of a guest's shutdown, and of a crash.
func TestRunPolicies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		policy                       v1.RunPolicy
		unset, stopped, running      v1.State
		free, guestStops, crashStops bool
	}{
		{"", v1.Stopped, v1.Stopped, v1.Running, true, false, false},
		{v1.AlwaysOn, v1.Running, v1.Running, v1.Running, false, false, false},
		{v1.AlwaysOnUnlessStoppedManually, v1.Running, v1.Stopped, v1.Running, true, true, false},
		{v1.Manual, v1.Stopped, v1.Stopped, v1.Running, true, true, true},
		{v1.AlwaysOff, v1.Stopped, v1.Stopped, v1.Stopped, false, false, false},
	} {
		spec := &v1.VirtualMachineSpec{RunPolicy: row.policy}
		of := map[v1.State]v1.State{"": row.unset, v1.Stopped: row.stopped, v1.Running: row.running}
		for spec.VM.State = range of {
			require.Equal(t, of[spec.VM.State], spec.DesiredState(), "%s: %s", row.policy, spec.VM.State)
		}
		require.Equal(t, row.free, spec.StateIsFree(), row.policy)
		require.Equal(t, row.guestStops, spec.GuestStops(), row.policy)
		require.Equal(t, row.crashStops, spec.CrashStops(), row.policy)
	}
	require.True(t, (&v1.VirtualMachineSpec{GuestShutdownStops: true}).GuestStops())
}
