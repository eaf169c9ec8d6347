package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
)

// some returns a VM with a phase; changed reports whether its definition changed since a manager last saw it. Without a
// phase, the VM is new.
func some(name string, version int, phase v1.Phase, changed bool) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "vms", ResourceVersion: fmt.Sprint(version), Generation: 3,
	}}
	vm.Status.Phase = phase
	if phase == "" {
		vm.Status.Phase, vm.Status.Reason = v1.PhasePending, "NotSeen"
		return vm
	}
	vm.Status.ObservedGeneration = vm.Generation
	if changed {
		vm.Status.ObservedGeneration--
	}
	return vm
}

// While many VMs are created, changed running VMs come first. Then follow VMs with a new definition, other changed VMs,
// the new VMs in the order of their creation, and finally unchanged VMs.
func TestUrgentVMsComeFirst(t *testing.T) {
	t.Parallel()
	m, q := New("vms", func() string { return "" }), newQueue(t)
	put := func(vms ...*v1.VirtualMachine) {
		for _, vm := range vms {
			require.NoError(t, m.Put(vm))
		}
	}
	put(some("web", 1, v1.PhaseRunning, false), some("db", 2, v1.PhaseStopped, false),
		some("idle", 3, v1.PhaseRunning, false))
	require.NoError(t, m.Start(t.Context(), q))
	require.ElementsMatch(t, []string{"web", "db", "idle"}, drain(q))

	put(some("old", 4, v1.PhaseRunning, false), some("off", 5, v1.PhaseStopped, false))
	drain(q)
	m.EnqueueAll() // the settings have changed
	var created []string
	for i := range 800 {
		name := fmt.Sprintf("new-%03d", i)
		put(some(name, 10+i, "", false))
		created = append(created, name)
	}
	put(some("started", 900, v1.PhaseStarting, false)) // one of the created VMs
	put(some("db", 901, v1.PhaseStopped, true))        // it must start
	put(some("web", 902, v1.PhaseRunning, false))      // its labels have changed
	require.NoError(t, m.Put(somePod("idle-0", "idle", 903, "n1")))

	order := drain(q)
	require.Equal(t, []string{"web", "idle", "db", "started"}, order[:4])
	require.Equal(t, created, order[4:804])
	require.Equal(t, []string{"old", "off"}, order[804:], "of which nothing has changed")
}

// A new VM that has started running moves ahead in the queue.
func TestUrgencyRises(t *testing.T) {
	t.Parallel()
	m, q := New("vms", func() string { return "" }), newQueue(t)
	require.NoError(t, m.Start(t.Context(), q))
	for i := range 3 {
		require.NoError(t, m.Put(some(fmt.Sprint(i), 1+i, "", false)))
	}
	require.NoError(t, m.Put(some("2", 4, v1.PhaseRunning, false)))
	require.Equal(t, []string{"2", "0", "1"}, drain(q))
}

// A queue without priorities is refused, because new VMs would delay the others.
func TestQueueWithoutPriorities(t *testing.T) {
	t.Parallel()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	require.ErrorContains(t, New("vms", nil).Start(context.WithoutCancel(t.Context()), q), "without priorities")
}
