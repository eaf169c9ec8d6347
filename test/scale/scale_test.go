package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/wait"
)

// The number of the manager's requests for a few VMs is within its bounds.
func TestFewVMs(t *testing.T) {
	t.Parallel()
	const few = 50
	vmmanager := filepath.Join(t.TempDir(), "vmmanager")
	require.NoError(t, errors.Join(program.Build(t.Context(), vmmanager, "vmop/cmd/vmmanager"),
		program.LookInto("../../deploy")))
	w, err := newWorld(t.Context(), vmmanager, func(line string) { t.Log(line) })
	require.NoError(t, err)
	defer func() { require.NoError(t, w.closeWorld(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, w.startManager(t.Context(), 0))
	wait.Until(t, func() bool { // one-time work in a cluster without classes doesn't count for VMs
		out, err := w.Kubectl(t.Context(), "-n", namespace, "get", "configmap", "vm-operator-classes", "-o",
			"jsonpath={.data.presets}")
		return err == nil && out == "done"
	})
	_, err = w.awaitQuiet(t.Context(), quietTime) // the first lists of its watches don't count either
	require.NoError(t, err)

	r := round{VMs: few}
	require.NoError(t, w.createVMs(t.Context(), &r))
	t.Log(r.Calls)
	const own = 1 // the ConfigMap with the manager's authorities may be read and written at the same time
	require.LessOrEqual(t, r.Calls.countReads(), own, r.Calls)
	for name, times := range map[string]int{
		"patch configmaps": 1, "patch statefulsets": 1, "create persistentvolumeclaims": 2, "create secrets": 1,
	} {
		require.InDelta(t, times*few, r.Calls[name], own, "%s: %s", name, r.Calls)
	}
	require.LessOrEqual(t, r.Calls.countWrites(), mostWrites*few, r.Calls)

	w.crowd.classed = true
	classed := round{VMs: 2 * few}
	require.NoError(t, w.createVMs(t.Context(), &classed))
	t.Log(classed.Calls)
	// The namespace owns the leases, and is read once, or by several readers at the same time.
	require.LessOrEqual(t, classed.Calls.countReads()-classed.Calls["get namespaces"], own, classed.Calls)
	for name, times := range map[string]int{ // without a class, none
		"create virtualmachineipaddresses": 1, "create virtualmachineipaddressleases": 1,
		"create configmaps": 1, // with the claims of pods that use the node's network
		"patch configmaps":  1, "patch statefulsets": 1, "create persistentvolumeclaims": 2, "create secrets": 1,
	} {
		require.InDelta(t, times*few, classed.Calls[name], own, "%s: %s", name, classed.Calls)
	}
	r.VMs = classed.VMs

	require.NoError(t, w.measureRestart(t.Context(), &r))
	require.Zero(t, r.AfterRestart.countWrites(), r.AfterRestart)
	require.NotEmpty(t, r.AfterRestart, "what the manager does is seen; a watch is in the log when it ends")

	single, err := w.measureSingle(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2*few+steps, single.VMs)
	require.Positive(t, single.Booted)
	require.Positive(t, single.Edited)
	require.Positive(t, single.Operated)

	require.NoError(t, w.manager.stopManager())
	w.manager = nil
	require.Nil(t, w.kubelet.failed.Load())
}
