package controller

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// A VM starts, runs, stops and starts again, and keeps its disks.
func TestLife(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	first := w.boot("web")
	for _, claim := range []string{"runner-data-web-0", "system-disk-web-0"} {
		_, ok := get(w, claim, &corev1.PersistentVolumeClaim{})
		require.True(t, ok, claim)
	}
	secret, ok := get(w, "web-display-secret", &corev1.Secret{})
	require.True(t, ok)
	require.NotEmpty(t, secret.Data[objects.PasswordKey])
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, node, vm.Status.NodeName)
	require.Equal(t, vm.Generation, vm.Status.ObservedGeneration)

	w.edit("web", stopped)
	w.phase("web", v1.PhaseStopping, decide.ReasonStopRequested)
	w.gone("web", first)
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	set, _ := get(w, "web", &appsv1.StatefulSet{})
	require.Zero(t, *set.Spec.Replicas)

	w.edit("web", running)
	second := w.boot("web")
	require.NotEqual(t, first.UID, second.UID)
	again, _ := get(w, "web-display-secret", &corev1.Secret{})
	require.Equal(t, secret.Data, again.Data, "a password that is there is kept")
}
