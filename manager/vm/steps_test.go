package vm

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// Before a VM has run for the first time, its conditions say so, and since when.
func TestFirstWord(t *testing.T) {
	t.Parallel()
	w := begin(t)
	made := w.vm("web", stopped)
	vm := w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	classless := len(v1.ManagerConditions()) - 1
	require.Len(t, vm.Status.Conditions, classless+len(v1.MachineConditions()))
	for _, name := range v1.MachineConditions() {
		c := condition(vm, name)
		require.Equal(t, "NotStarted", c.Reason, name)
		require.Equal(t, made.CreationTimestamp.UTC(), c.LastTransitionTime.UTC(), name)
	}
	for range 3 {
		w.look()
	}
	w.edit("web", running)
	w.boot("web")
	same, _ := get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, metav1.ConditionTrue, condition(same, v1.ConditionRunning).Status,
		"the runner's word is not overwritten")
	for _, c := range same.Status.Conditions {
		require.Positive(t, c.LastTransitionTime.Unix(), c.Type)
	}
}

// A VM is started, runs, is stopped and started again; its disks stay.
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
