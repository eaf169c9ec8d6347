package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/web/fleet"
)

// everyVM calls f with a VM and its pod for each combination of facts that decide about operations, even impossible
// ones.
func everyVM(f func(vm *v1.VirtualMachine, pod *corev1.Pod)) {
	policies := []v1.RunPolicy{"", v1.AlwaysOn, v1.AlwaysOnUnlessStoppedManually, v1.Manual, v1.AlwaysOff}
	phases := []v1.Phase{
		"", v1.PhasePending, v1.PhaseStarting, v1.PhaseRunning, v1.PhaseMigrating, v1.PhaseStopping, v1.PhaseStopped,
		v1.PhaseFailed,
	}
	for _, policy := range policies {
		for _, phase := range phases {
			for facts := range 1 << 6 {
				f(machineIn(policy, phase, func(i int) bool { return facts>>i&1 == 1 }))
			}
		}
	}
}

// machineIn returns a VM and its pod. fact determines each of six facts.
func machineIn(policy v1.RunPolicy, phase v1.Phase, fact func(int) bool) (*v1.VirtualMachine, *corev1.Pod) {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm"}}
	vm.Spec.RunPolicy, vm.Status.Phase, vm.Spec.VM.State = policy, phase, v1.Stopped
	if fact(0) {
		vm.Spec.VM.State = v1.Running
	}
	if fact(1) {
		vm.DeletionTimestamp = new(metav1.NewTime(then))
	}
	if fact(2) {
		vm.Status.Conditions = conditions(is(v1.ConditionVMTypeAccepted, "False", "Refused", "no such option", then))
	}
	if fact(3) {
		vm.Spec.NodeName = "n1"
	}
	if !fact(4) {
		return vm, nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "pod"}}
	vm.Status.Runner = runnerOf(pod)
	if fact(5) {
		pod.DeletionTimestamp = new(metav1.NewTime(then))
	}
	return vm, pod
}

// inProgress returns all operations that may be in progress; nil stands for none.
func inProgress() []*v1.VirtualMachineOperation {
	all := []*v1.VirtualMachineOperation{nil}
	for _, a := range fleet.Actions() {
		spec, is := operationOf(a, "web")
		if !is {
			continue
		}
		for _, sent := range []metav1.ConditionStatus{"False", "True"} {
			o := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: spec}
			o.Status.Phase, o.Status.Target = v1.OperationInProgress, &v1.OperationTarget{VirtualMachineUID: "vm"}
			o.Status.Conditions = conditions(metav1.Condition{Type: v1.OperationConditionSignalSent, Status: sent})
			all = append(all, o)
		}
	}
	return all
}

// accepted reports whether a manager would accept a new operation, by simulating its rounds. Otherwise it returns the
// reason.
func accepted(t *testing.T, vm *v1.VirtualMachine, pod *corev1.Pod, all ...*v1.VirtualMachineOperation) (bool, string) {
	t.Helper()
	for range 3 {
		plan := operation.Decide(operation.Situation{
			VM: vm, Pod: pod, Operations: all, Now: then.Add(time.Hour),
			Retention: operation.Retention{Most: 9, For: 24 * time.Hour},
			Seen:      func(types.UID) time.Time { return then },
		})
		for _, o := range plan.Write {
			for i := range all {
				if all[i].Name == o.Name {
					all[i] = o
				}
			}
		}
		if s := all[len(all)-1].Status; s.Phase != "" {
			return s.Phase == v1.OperationInProgress, s.Message
		}
	}
	require.Fail(t, "it has no effect")
	return false, ""
}

// A manager accepts what pages and the JSON interface offer. It refuses everything else, with the reason that they
// show.
func TestWhatIsOfferedIsAccepted(t *testing.T) {
	t.Parallel()
	active, offered := inProgress(), map[bool]int{}
	everyVM(func(vm *v1.VirtualMachine, pod *corev1.Pod) {
		for _, first := range active {
			var all []*v1.VirtualMachineOperation
			if first != nil {
				all = append(all, first)
			}
			v := newView(vm, pod, all)
			for _, a := range fleet.Actions() {
				spec, is := operationOf(a, vm.Name)
				if !is {
					continue
				}
				created := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: spec}
				taken, why := accepted(t, vm, pod, append(all[:len(all):len(all)], created)...)
				if taken {
					why = ""
				}
				if taken != v.Can[a] || why != v.Refused[a] {
					require.Failf(t, "the page and the manager disagree", "%s, %v, %v: %v %q, but %v %q", a, vm, first,
						v.Can[a], v.Refused[a], taken, why)
				}
				offered[taken]++
			}
		}
	})
	require.Greater(t, offered[true], 1000)
	require.Greater(t, offered[false], 1000)
}
