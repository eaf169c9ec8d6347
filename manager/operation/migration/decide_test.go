package migration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.NodeName, p.Status.PodIP, p.Status.Phase = node, "192.0.2.1", corev1.PodRunning
	return p
}

// situation returns the situation of a VM that runs in the pod with ordinal 0 and has a requested migration.
func situation() Situation {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm"}}
	vm.Spec.VM.State = v1.Running
	vm.Status.Runner = &v1.RunnerStatus{PodUID: "uid-web-0", State: "Running"}
	o := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "move", UID: "op"}}
	return Situation{
		Snapshot: &decide.Snapshot{VM: vm, Now: noon, Pod: pod("web-0", "n1")}, Operation: o,
	}
}

// takes applies what a plan writes.
func (s *Situation) takes(t *testing.T, p Plan) {
	t.Helper()
	require.NotNil(t, p.Record)
	s.VM = s.VM.DeepCopy()
	s.VM.Status.Migration, s.VM.Status.PodOrdinal = p.Record, p.Ordinal
}

// preparing returns a situation after the second pod's runner has begun to wait.
func preparing(t *testing.T) Situation {
	t.Helper()
	s := situation()
	s.takes(t, Decide(s))
	require.Equal(t, v1.MigrationPreparing, s.VM.Status.Migration.Stage)
	require.Equal(t, v1.MigrationPod{Pod: "web-0", PodUID: "uid-web-0", NodeName: "n1"}, s.VM.Status.Migration.Source)
	require.Equal(t, Plan{Again: noon.Add(prepareTime)}, Decide(s), "there is no second pod yet")
	s.Other = pod("web-1", "n2")
	s.VM.Status.Arriving = &v1.Arriving{PodUID: "uid-web-1", Stage: "Waiting", Control: &v1.RunnerControl{Port: 7443}}
	return s
}

// moving returns a situation after the source has been asked.
func moving(t *testing.T) Situation {
	t.Helper()
	s := preparing(t)
	p := Decide(s)
	require.True(t, p.Begin)
	s.takes(t, p)
	require.Equal(t, v1.MigrationMoving, s.VM.Status.Migration.Stage)
	s.Call.Running = true
	require.Equal(t, Plan{}, Decide(s))
	return s
}

func TestAMigrationGoesWell(t *testing.T) {
	t.Parallel()
	s := moving(t)
	s.Call.Progress = 4
	require.Equal(t, Plan{}, Decide(s), "it is not worth a write")
	s.Call.Progress = 42
	s.takes(t, Decide(s))
	require.Equal(t, int32(42), s.VM.Status.Migration.Progress)
	require.Equal(t, v1.MigrationMoving, s.VM.Status.Migration.Stage)
	require.Equal(t, Plan{}, Decide(s))
	s.Call = Call{Result: Moved, At: noon, Transferred: 7}
	require.Equal(t, Plan{Again: noon.Add(reportTime)}, Decide(s), "the target reports next")
	s.VM.Status.Runner = &v1.RunnerStatus{PodUID: "uid-web-1", State: "Running"}
	p := Decide(s)
	require.Equal(t, int32(1), p.Ordinal)
	require.True(t, p.Forget)
	s.takes(t, p)
	m := s.VM.Status.Migration
	require.Equal(t, v1.MigrationCompleted, m.Stage)
	require.Equal(t, v1.MigrationPod{Pod: "web-1", PodUID: "uid-web-1", NodeName: "n2"}, m.Target)
	require.Equal(t, int64(7), m.Transferred)
	require.Equal(t, int32(100), m.Progress)
	s.Pod, s.Other, s.Call = s.Other, s.Pod, Call{}
	require.Equal(t, Plan{}, Decide(s), "of one operation there is one migration")

	s.Operation = &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: "back", UID: "op-2"}}
	require.Equal(t, Plan{Again: noon.Add(askAgain)}, Decide(s), "the pod of the first is still there")
	s.Other = nil
	s.Full = "5 guests are being moved"
	require.Nil(t, Decide(s).Record)
	s.Full = ""
	s.takes(t, Decide(s))
	require.Equal(t, "web-0", s.VM.Status.Migration.Target.Pod)
}

// Causes and messages of migrations that fail before the source is asked.
func TestAMigrationFailsEarly(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Situation){
		"the operation was deleted or replaced": func(s *Situation) { s.Operation = nil },
		"the VM is being stopped":               func(s *Situation) { s.VM.Spec.VM.State = v1.Stopped },
		"the VM's pod is being deleted": func(s *Situation) {
			s.Pod.DeletionTimestamp = &metav1.Time{Time: noon}
		},
		"the VM's pod is being deleted ": func(s *Situation) { s.Pod = nil },
		"the guest has ended: guest shutdown": func(s *Situation) {
			s.VM.Status.Runner.State, s.VM.Status.Runner.Outcome = "Stopped", &v1.Outcome{Cause: "guest shutdown"}
		},
		"the guest has ended: it was released to a target that is gone": func(s *Situation) {
			s.VM.Status.Runner.State = "Stopped"
			s.VM.Status.Runner.Outcome = &v1.Outcome{
				Cause: "killed", Message: "it was released to a target that is gone",
			}
		},
		"spec.blockDeviceRefs[0]: the VirtualDisk data is attached while the guest runs, and another pod would mount it: " +
			"detach it first, or restart the VM": func(s *Situation) {
			s.VM.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
			data := v1.BlockDeviceStatusRef{Kind: v1.KindVirtualDisk, Name: "data", Hotplugged: true}
			s.VM.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{data}
		},
		"the target can't receive the guest: other hardware": func(s *Situation) {
			s.VM.Status.Arriving.Stage, s.VM.Status.Arriving.Message = "Failed", "other hardware"
		},
		"the pod web-1 wasn't ready within 5m0s: it was not created": func(s *Situation) {
			s.Other, s.Now = nil, noon.Add(prepareTime)
		},
		"the pod web-1 wasn't ready within 5m0s: no node has the volume": func(s *Situation) {
			s.VM.Status.Arriving, s.Now = nil, noon.Add(prepareTime)
			s.Other.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has the volume",
			}}
		},
	} {
		s := preparing(t)
		change(&s)
		p := Decide(s)
		require.NotNil(t, p.Record, want)
		require.Equal(t, v1.MigrationFailed, p.Record.Stage, want)
		require.Contains(t, want, p.Record.Message)
		require.NotNil(t, p.Record.EndTime)
		require.Zero(t, p.Ordinal)
	}
}

// A running request is canceled, and the manager waits for its answer, because the guest may have been released
// already.
func TestAMigrationIsCancelled(t *testing.T) {
	t.Parallel()
	s := moving(t)
	s.Operation = nil
	require.Equal(t, Plan{Cancel: true}, Decide(s))
	stayed := s
	stayed.Call = Call{Result: Stayed, Message: "it was interrupted"}
	require.Equal(t, "the operation was deleted or replaced", Decide(stayed).Record.Message)
	stayed.Operation = &v1.VirtualMachineOperation{}
	require.Equal(t, "it was interrupted", Decide(stayed).Record.Message)
	s.Call = Call{Result: Moved, At: noon.Add(-reportTime)}
	require.Equal(t, v1.MigrationCompleted, Decide(s).Record.Stage)
}

// A manager that takes over asks until it knows where the guest is.
func TestAMigrationIsInterrupted(t *testing.T) {
	t.Parallel()
	s := moving(t)
	s.Call = Call{}
	require.Equal(t, Plan{Query: true}, Decide(s))
	s.Call = Call{Result: Unknown, At: noon}
	require.Equal(t, Plan{Again: noon.Add(askPause)}, Decide(s))
	s.Now = noon.Add(askPause)
	require.True(t, Decide(s).Forget, "it is asked again")

	s.Pod = nil // gone with its node; the target may have the guest
	require.Nil(t, Decide(s).Record)
	failed := s
	failed.VM = s.VM.DeepCopy()
	failed.VM.Status.Arriving.Stage = "Failed"
	require.Equal(t, v1.MigrationFailed, Decide(failed).Record.Stage)
	gone := s
	gone.Snapshot = new(*s.Snapshot)
	gone.Other = nil
	require.Equal(t, v1.MigrationFailed, Decide(gone).Record.Stage)
	s.VM.Status.Runner = &v1.RunnerStatus{PodUID: "uid-web-1", State: "Running"}
	p := Decide(s)
	require.Equal(t, v1.MigrationCompleted, p.Record.Stage)
	require.Equal(t, int32(1), p.Ordinal)
}

// At most five guests move at a time, and at most two away from one node.
func TestLimits(t *testing.T) {
	t.Parallel()
	var c Calls
	vm := func(i int, stage v1.MigrationStage, node string) *v1.VirtualMachine {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("vm", i)}}
		vm.Status.Migration = &v1.Migration{Stage: stage, Source: v1.MigrationPod{NodeName: node}}
		return vm
	}
	other := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	for i, node := range []string{"n1", "n1", "n2", "n3", "n4"} {
		require.Equal(t, i == 2, c.Admit(other, pod("other-0", "n1")) != "" && i < 3, "before %d", i)
		require.Empty(t, c.Admit(vm(i, v1.MigrationPreparing, node), pod("p", node)))
	}
	require.Equal(t, "5 guests are being moved", c.Admit(other, pod("other-0", "n5")))
	require.Empty(t, c.Admit(vm(0, v1.MigrationCompleted, "n1"), nil))
	require.Empty(t, c.Admit(other, pod("other-0", "n1")))
	c.Gone("vm1")
	require.Len(t, c.active, 3)
}
