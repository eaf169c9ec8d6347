package v1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
)

// Each run policy determines vm.state, and the effect of a guest's shutdown and of a crash.
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

// Methods return the meaning of each value of an optional part of a resource, and of a missing part.
func TestWhatPartsMean(t *testing.T) {
	t.Parallel()
	spec := &v1.VirtualMachineSpec{}
	require.Equal(t, v1.RestartManual, spec.RestartApproval())
	spec.Disruptions = &v1.Disruptions{}
	require.Equal(t, v1.RestartManual, spec.RestartApproval())
	spec.Disruptions.RestartApprovalMode = v1.RestartAutomatic
	require.Equal(t, v1.RestartAutomatic, spec.RestartApproval())

	vm := &v1.VM{Networks: []v1.Network{{User: &v1.UserNetwork{}}, {Tap: &v1.Tap{}}, {Tap: &v1.Tap{}}}}
	require.Equal(t, 1, vm.FirstTap())
	require.Equal(t, -1, (&v1.VM{Networks: vm.Networks[:1]}).FirstTap())

	require.False(t, (*v1.Migration)(nil).Active())
	for stage, active := range map[v1.MigrationStage]bool{
		v1.MigrationPreparing: true, v1.MigrationMoving: true, v1.MigrationCompleted: false, v1.MigrationFailed: false,
	} {
		require.Equal(t, active, (&v1.Migration{Stage: stage}).Active(), stage)
	}
	for phase, finished := range map[v1.OperationPhase]bool{
		"": false, v1.OperationPending: false, v1.OperationInProgress: false, v1.OperationCompleted: true,
		v1.OperationFailed: true, v1.OperationSuperseded: true,
	} {
		require.Equal(t, finished, phase.Finished(), phase)
	}
	require.True(t, v1.VirtualMachineSnapshotSpec{}.Consistency())
	require.True(t, v1.VirtualMachineSnapshotSpec{RequiredConsistency: new(true)}.Consistency())
	require.False(t, v1.VirtualMachineSnapshotSpec{RequiredConsistency: new(false)}.Consistency())
	for kind, image := range map[v1.AttachedDeviceKind]bool{
		v1.AttachedDisk: false, v1.AttachedImage: true, v1.AttachedClusterImage: true,
	} {
		require.Equal(t, image, kind.IsImage(), kind)
	}

	change := v1.RestartAwaitingChange{
		CurrentValue: &runtime.RawExtension{Raw: []byte(`{"a": 1}`)},
		DesiredValue: &runtime.RawExtension{Raw: []byte("{")},
	}
	current, desired := change.Values()
	require.Equal(t, map[string]any{"a": 1.0}, current)
	require.Nil(t, desired)
	current, _ = v1.RestartAwaitingChange{}.Values()
	require.Nil(t, current)
}
