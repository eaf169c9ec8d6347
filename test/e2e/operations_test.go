package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// operate applies an operation in Deckhouse's form, and returns it when it has finished.
func (v *clusterVM) operate(name, spec string) *v1.VirtualMachineOperation {
	v.t.Helper()
	v.applyText(v.t, fmt.Sprintf(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineOperation
metadata:
  name: %s
spec:
  virtualMachineName: %s
  %s
`, name, v.name, spec))
	return v.operationEnds(name)
}

// operationEnds waits until an operation has ended.
func (v *clusterVM) operationEnds(name string) *v1.VirtualMachineOperation {
	v.t.Helper()
	var o v1.VirtualMachineOperation
	wait.For(v.t, "the end of operation "+name, func() error {
		err := v.client.Get(v.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &o)
		if err == nil && !o.Status.Phase.Finished() {
			err = fmt.Errorf("it is %+v", o.Status)
		}
		return err
	})
	return &o
}

// Operations act on real machines, as their guests confirm, and record the results (docs/reference/operations.md).
func operations(t *testing.T, l *lab) {
	v := l.create(t, tiny("operated", func(s *v1.VirtualMachineSpec) { s.VM.State = v1.Stopped }))
	v.phase(v1.PhaseStopped)
	ends := func(o *v1.VirtualMachineOperation, phase v1.OperationPhase, reason string) {
		t.Helper()
		require.Equal(t, phase, o.Status.Phase, "%+v", o.Status)
		require.Equal(t, reason, o.Status.Reason)
	}
	const done = "OperationCompleted"
	ends(v.operate("started", "type: Start"), v1.OperationCompleted, done)
	v.runs()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	guest, pod := v.console().booted(), v.pod()
	first := guest.ask(bootID)

	ends(v.operate("refused", "type: Start"), v1.OperationFailed, "NotApplicableForPhase")
	require.Equal(t, first, guest.ask(bootID), "the guest has not noticed")

	qemu := v.qemu()
	ends(v.operate("reset", "type: Reset"), v1.OperationCompleted, done)
	require.NotEqual(t, first, guest.booted().ask(bootID))
	require.Equal(t, qemu, v.qemu(), "in the same machine")

	ends(v.operate("restarted", "type: Restart"), v1.OperationCompleted, done)
	v.podOtherThan(pod)
	require.NotEqual(t, first, v.console().booted().ask(bootID))
	pod = v.pod()
	ends(v.operate("restarted-now", "type: Restart\n  force: true"), v1.OperationCompleted, done)
	v.podOtherThan(pod)
	v.runs()
	ends(v.operate("stopped", "type: Stop"), v1.OperationCompleted, done)
	v.podGone()
	require.Equal(t, v1.Stopped, v.now().Spec.VM.State)
	ends(v.operate("started-again", "type: Start"), v1.OperationCompleted, done)
	v.runs()
	ends(v.operate("stopped-now", "type: Stop\n  force: true"), v1.OperationCompleted, done)
	v.podGone()
	require.Empty(t, l.qemus(v.name))

	table := l.kubectl(t, "get", "vmop", "-o", "wide")
	require.Regexp(t, `NAME +PHASE +TYPE +VIRTUALMACHINE +AGE +REASON +REQUESTED-BY +MESSAGE\n`, table)
	require.Regexp(t, `(?m)^refused +Failed +Start +operated .* NotApplicableForPhase `, table)
	events := l.kubectl(t, "describe", "vm", v.name)
	require.Contains(t, events, "requested: Restart (VirtualMachineOperation restarted)")
}
