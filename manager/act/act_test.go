package act_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/act"
)

func web() *v1.VirtualMachine {
	return &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u-1"},
		Spec: v1.VirtualMachineSpec{VM: v1.VM{Disks: []v1.Disk{
			{VolumeClaimTemplate: &v1.VolumeClaimTemplate{}}, {CDROM: &v1.CDROM{Image: "old.iso"}},
		}}},
	}
}

// Every patch names the VM that it is about, by its uid.
func TestPatches(t *testing.T) {
	t.Parallel()
	state, err := act.State(web(), v1.Running)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata": {"uid": "u-1"}, "spec": {"vm": {"state": "Running"}}}`, string(state))
	size, err := act.Size(web(), new(int64(2)), "")
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata": {"uid": "u-1"}, "spec": {"vm": {"currentCpus": 2}}}`, string(size))
	size, err = act.Size(web(), nil, "2Gi")
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata": {"uid": "u-1"}, "spec": {"vm": {"currentRam": "2Gi"}}}`, string(size))

	require.Equal(t, []int{1}, act.Drives(web()))
	medium, err := act.Medium(web(), 1, "new.iso")
	require.NoError(t, err)
	require.JSONEq(t, `[{"op": "test", "path": "/metadata/uid", "value": "u-1"},
		{"op": "test", "path": "/spec/vm/disks/1/cdrom/image", "value": "old.iso"},
		{"op": "replace", "path": "/spec/vm/disks/1/cdrom/image", "value": "new.iso"}]`, string(medium))
	for _, place := range []int{-1, 0, 2} {
		_, err := act.Medium(web(), place, "new.iso")
		require.ErrorAs(t, err, new(act.Refusal), "%d", place)
	}
}

// A VM that could not start again is not stopped for a restart.
func TestCanRestart(t *testing.T) {
	t.Parallel()
	vm := web()
	require.NoError(t, act.CanRestart(vm))
	vm.Status.Conditions = []metav1.Condition{{
		Type: v1.ConditionVMTypeAccepted, Status: metav1.ConditionFalse, Message: "no such option",
	}}
	require.EqualError(t, act.CanRestart(vm), "the VM could not be started again: no such option")
}

// A port of the pod leads to the guest only where its network doesn't hand on all of them.
func TestPort(t *testing.T) {
	t.Parallel()
	vm := web()
	_, err := act.Port(vm, 80, corev1.ProtocolTCP)
	require.ErrorAs(t, err, new(act.Refusal))
	vm.Spec.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}, {Tap: &v1.Tap{}}}
	_, err = act.Port(vm, 80, corev1.ProtocolTCP)
	require.ErrorContains(t, err, "write an EndpointSlice")
	vm.Spec.VM.Networks = []v1.Network{{}, {User: &v1.UserNetwork{}}}
	patch, err := act.Port(vm, 80, corev1.ProtocolTCP)
	require.NoError(t, err)
	require.JSONEq(t, `[{"op": "test", "path": "/metadata/uid", "value": "u-1"}, {"op": "add",
		"path": "/spec/vm/networks/1/user/ports", "value": [{"port": 80, "protocol": "TCP"}]}]`, string(patch))
	vm.Spec.VM.Networks[1].User.Ports = []v1.Port{{Port: 80, Protocol: corev1.ProtocolTCP}}
	patch, err = act.Port(vm, 80, corev1.ProtocolTCP)
	require.NoError(t, err)
	require.Empty(t, patch)
	patch, err = act.Port(vm, 80, corev1.ProtocolUDP)
	require.NoError(t, err)
	require.Contains(t, string(patch), `"/spec/vm/networks/1/user/ports/-"`)
	vm.Spec.VM.Networks = append(vm.Spec.VM.Networks, v1.Network{Masquerade: &v1.PrivateNetwork{}})
	patch, err = act.Port(vm, 443, corev1.ProtocolTCP)
	require.NoError(t, err)
	require.Empty(t, patch)
}

// A VM that has failed is tried again by one change, of what nothing else depends on, and only if it
// is as it was.
func TestStateOfFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		is    v1.State
		phase v1.Phase
		want  v1.State
		reset *int64
		patch string
	}{
		{v1.Stopped, v1.PhaseStopped, v1.Running, nil, `{"vm": {"state": "Running"}}`},
		{v1.Running, v1.PhaseStarting, v1.Running, nil, `{"vm": {"state": "Running"}}`},
		{v1.Running, v1.PhaseFailed, v1.Stopped, nil, `{"vm": {"state": "Stopped"}}`},
		{v1.Stopped, v1.PhaseFailed, v1.Running, nil, `{"vm": {"state": "Running"}}`},
		{v1.Running, v1.PhaseFailed, v1.Running, nil, `{"resetCounter": 1}`},
		{v1.Running, v1.PhaseFailed, v1.Running, new(int64(7)), `{"resetCounter": 8}`},
	} {
		vm := web()
		vm.Spec.VM.State, vm.Status.Phase = test.is, test.phase
		vm.Spec.ResetCounter, vm.ResourceVersion = test.reset, "3"
		patch, err := act.State(vm, test.want)
		require.NoError(t, err)
		metadata := `{"uid": "u-1"}`
		if strings.Contains(test.patch, "reset") {
			metadata = `{"uid": "u-1", "resourceVersion": "3"}`
		}
		require.JSONEq(t, `{"metadata": `+metadata+`, "spec": `+test.patch+`}`, string(patch))
	}
}

// A run policy may leave no choice.
func TestStateOfAPolicy(t *testing.T) {
	t.Parallel()
	for policy, free := range map[v1.RunPolicy]bool{
		"": true, v1.AlwaysOn: false, v1.AlwaysOff: false, v1.Manual: true, v1.AlwaysOnUnlessStoppedManually: true,
	} {
		vm := &v1.VirtualMachine{}
		vm.Spec.RunPolicy = policy
		_, err := act.State(vm, v1.Stopped)
		require.Equal(t, free, err == nil, policy)
		if !free {
			require.ErrorAs(t, err, new(act.Refusal))
			require.ErrorContains(t, err, "spec.runPolicy is "+string(policy))
		}
	}
}
