package act_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/operation/act"
)

func web() *v1.VirtualMachine {
	return &v1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u-1"},
		Spec: v1.VirtualMachineSpec{VM: v1.VM{Disks: []v1.Disk{
			{VolumeClaimTemplate: &v1.VolumeClaimTemplate{}}, {CDROM: &v1.CDROM{Image: "old.iso"}},
		}}},
	}
}

// Every patch contains the UID of its VM.
func TestPatches(t *testing.T) {
	t.Parallel()
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

// An operation contains the name of the requesting user, if known.
func TestNewOperation(t *testing.T) {
	t.Parallel()
	spec := v1.VirtualMachineOperationSpec{Type: v1.OperationRestart, VirtualMachineName: "web", Force: true}
	o := act.NewOperation("ns", "alice", spec)
	require.Equal(t, spec, o.Spec)
	require.Equal(t, "web-restart-", o.GenerateName)
	require.Equal(t, "alice", o.Annotations[v1.AnnotationRequestedBy])
	require.Empty(t, act.NewOperation("ns", "", spec).Annotations)
}

// A port of the pod is forwarded to the guest only if its network doesn't forward all ports.
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
