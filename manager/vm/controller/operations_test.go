package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

// user is the API server's user name for the tests.
const user = "admin"

// request creates an operation of the VM "web" for the tests' user; a type that ends with "!" is forced.
func (w *world) request(name, what string) {
	w.t.Helper()
	kind, force := strings.CutSuffix(what, "!")
	w.create(&v1.VirtualMachineOperation{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.Name, Annotations: map[string]string{v1.AnnotationRequestedBy: user},
		},
		Spec: v1.VirtualMachineOperationSpec{Type: v1.OperationType(kind), VirtualMachineName: "web", Force: force},
	})
}

// is waits until an operation has a phase and a reason.
func (w *world) is(name string, phase v1.OperationPhase, reason string) *v1.VirtualMachineOperation {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachineOperation{}, string(phase), func(o *v1.VirtualMachineOperation) bool {
		return o.Status.Phase == phase && o.Status.Reason == reason
	})
}

// applied plays a runner that has read the definition of the VM "web".
func (w *world) applied() {
	wait.For(w.t, "the runner reports", func() error {
		vm := &v1.VirtualMachine{}
		if err := w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: "web"}, vm); err != nil {
			return err
		}
		meta.SetStatusCondition(&vm.Status.Conditions, metav1.Condition{
			Type: v1.ConditionConfigApplied, Status: metav1.ConditionTrue, Reason: "Applied",
			ObservedGeneration: vm.Generation,
		})
		return w.client.Status().Update(w.playing(), vm)
	})
}

// Each operation takes effect, ends, and has an event with the name of its requester.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.play()
	w.vm("web", stopped)
	w.phase("web", v1.PhaseStopped, "Stopped")

	w.request("start", "Start")
	o := w.is("start", v1.OperationCompleted, operation.ReasonCompleted)
	require.Equal(t, "the guest is running on node "+node, o.Status.Message)
	require.True(t, meta.IsStatusConditionTrue(o.Status.Conditions, v1.OperationConditionCompleted))
	require.True(t, meta.IsStatusConditionTrue(o.Status.Conditions, v1.OperationConditionSignalSent))
	require.False(t, o.Status.CompletionTime.Before(o.Status.StartTime))
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, v1.Running, vm.Spec.VM.State, "the definition says so, which GitOps reads")
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	e := w.events("web", "Requested")
	require.Len(t, e, 1)
	require.Equal(t, user+" has requested: Start (VirtualMachineOperation start)", e[0].Note)
	require.Equal(t, "Start", e[0].Action)

	first := w.uid("web")
	w.request("restart", "Restart")
	w.is("restart", v1.OperationCompleted, operation.ReasonCompleted)
	require.NotEqual(t, first, w.uid("web"))

	w.request("reset", "Reset")
	eventually(w, "web", &corev1.ConfigMap{}, "it has the counter", func(c *corev1.ConfigMap) bool {
		return strings.Contains(c.Data[objects.ConfigKey], "resetCounter: 1")
	})
	w.is("reset", v1.OperationInProgress, operation.ReasonAccepted)
	w.applied()
	w.is("reset", v1.OperationCompleted, operation.ReasonCompleted)

	for name, want := range map[string]string{
		"Start": "NotApplicableForPhase", "Evict": "NotMigratable", "Migrate": "NotMigratable",
	} {
		w.request(strings.ToLower(name)+"-again", name)
		w.is(strings.ToLower(name)+"-again", v1.OperationFailed, want)
	}
	wait.Until(t, func() bool { return len(w.events("web", "OperationFailed")) == 3 })
	w.request("stop", "Stop")
	w.is("stop", v1.OperationCompleted, operation.ReasonCompleted)
	w.phase("web", v1.PhaseStopped, "Stopped")

	missing := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "missing", Namespace: w.Name}}
	missing.Spec = v1.VirtualMachineOperationSpec{Type: v1.OperationStart, VirtualMachineName: "none"}
	w.create(missing)
	w.is("missing", v1.OperationFailed, operation.ReasonNotFound)
}

// Finished operations are removed after their time, recent ones aren't removed by a clock change, and waiting needs no
// reads or writes.
func TestFinishedOperationsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	via := newWire()
	w.manage(via)
	w.vm("web", stopped)
	w.phase("web", v1.PhaseStopped, "Stopped")
	for i := range 12 {
		w.request(fmt.Sprint("stop-", i), "Stop")
	}
	left := func() int {
		var list v1.VirtualMachineOperationList
		require.NoError(t, w.client.List(t.Context(), &list, client.InNamespace(w.Name)))
		for _, o := range list.Items {
			if !o.Status.Phase.Finished() {
				return -1
			}
		}
		return len(list.Items)
	}
	wait.Until(t, func() bool { return left() == 10 })
	settled := len(via.written())
	for range 5 {
		w.look()
	}
	require.Len(t, via.written(), settled)
	require.Empty(t, via.read())
	w.set(func(s *objects.Settings) { s.OperationsKept = 4 })
	wait.Until(t, func() bool { return left() == 4 })
	w.advance(23 * time.Hour)
	require.Equal(t, 4, left())
	w.advance(2 * time.Hour)
	wait.Until(t, func() bool { return left() == 0 })
}

// After a manager is killed at any write of an operation, the next manager completes it with the same result, and its
// signal takes effect once.
func TestFault33TheManagerIsKilledInAnOperation(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, what := range []string{"Start", "Stop", "Stop!", "Restart", "Restart!", "Reset"} {
		want, writes := operatedUntil(t, what, 0, false)
		require.GreaterOrEqual(t, writes, 4, what)
		for at := range writes {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, write %d, carried out %t", what, at+1, after), func(t *testing.T) {
					t.Parallel()
					got, _ := operatedUntil(t, what, at+1, after)
					require.Equal(t, want, got)
				})
			}
		}
	}
}

// operatedUntil carries out an operation with several managers, kills the first one at the given write, and returns the
// outcome.
func operatedUntil(t *testing.T, what string, at int, after bool) (string, int) {
	t.Helper()
	w := newWorld(t)
	_, made := w.pods()
	defer w.play()()
	via := cutWire(at, after)
	via.only = `/virtualmachineoperations/|PATCH .*/vms/web$|DELETE .*/pods/`
	managers := w.relay(via)
	defer managers.end()
	w.vm("web", func(vm *v1.VirtualMachine) {
		if what == "Start" {
			vm.Spec.VM.State = v1.Stopped
		}
	})
	w.settled()
	require.Empty(t, via.written())
	w.request("op", what)
	var o *v1.VirtualMachineOperation
	managers.until(func() bool {
		if vm, _ := get(w, "web", &v1.VirtualMachine{}); vm.Spec.ResetCounter != nil {
			w.applied()
		}
		o, _ = get(w, "op", &v1.VirtualMachineOperation{})
		return o.Status.Phase.Finished()
	})
	w.settled()
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	status := o.Status
	for _, c := range status.Conditions {
		require.Equal(t, metav1.ConditionTrue, c.Status, c.Type)
	}
	counter, err := json.Marshal(vm.Spec.ResetCounter)
	require.NoError(t, err)
	pods := len(made()["web-0"])
	if what == "Stop!" { // the pod may end before its stateful set is scaled to zero
		pods = 0
	}
	return fmt.Sprintf("%s %s %s; %s, reset %s; %d pods, %d events", status.Phase, status.Reason, status.Message,
		vm.Status.Phase, counter, pods, len(w.events("web", "Requested"))), len(via.written())
}
