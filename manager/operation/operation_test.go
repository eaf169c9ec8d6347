package operation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/vmstatus"
)

const (
	start   = v1.OperationStart
	stop    = v1.OperationStop
	restart = v1.OperationRestart
	reset   = v1.OperationReset
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// machine returns a VM that is off, running, failed, stopping or restarting under a policy, and its pod.
func machine(policy v1.RunPolicy, situation string) (*v1.VirtualMachine, *corev1.Pod) {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm-1", Generation: 3}}
	vm.Spec.RunPolicy = policy
	vm.Status.ObservedGeneration = 3
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "pod-1"}}
	pod.Spec.NodeName = "n1"
	state := v1.Running
	switch situation {
	case "off":
		state, pod, vm.Status.Phase = v1.Stopped, nil, v1.PhaseStopped
	case "running":
		vm.Status.Phase = v1.PhaseRunning
		vm.Status.Runner = &v1.RunnerStatus{PodUID: "pod-1"}
	case "starting":
		vm.Status.Phase = v1.PhaseStarting
	case "failed":
		pod, vm.Status.Phase, vm.Status.Reason, vm.Status.Message = nil, v1.PhaseFailed, "Crashed", "boom"
	case "pending":
		pod, vm.Status.Phase = nil, v1.PhasePending
	case "stopping":
		state, vm.Status.Phase, pod.DeletionTimestamp = v1.Stopped, v1.PhaseStopping, &metav1.Time{Time: noon}
	case "restarting":
		vm.Status.Phase, pod.DeletionTimestamp = v1.PhaseStopping, &metav1.Time{Time: noon}
	}
	if vm.Spec.StateIsFree() {
		vm.Spec.VM.State = state
	}
	return vm, pod
}

func made(kind v1.OperationType, force ...bool) *v1.VirtualMachineOperation {
	o := &v1.VirtualMachineOperation{}
	o.Name, o.UID = "op-"+strings.ToLower(string(kind)), types.UID("uid-"+kind)
	o.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute))
	o.Spec = v1.VirtualMachineOperationSpec{Type: kind, VirtualMachineName: "web", Force: len(force) > 0}
	return o
}

// Possible operations by run policy and state: + is possible; phase and policy are the reasons for refusals.
// docs/reference/operations.md has this table.
func TestApplicable(t *testing.T) {
	t.Parallel()
	const free, on, off = " AlwaysOnUnlessStoppedManually Manual", "AlwaysOn", "AlwaysOff"
	columns := []*v1.VirtualMachineOperation{
		made(start), made(stop), made(stop, true), made(restart), made(restart, true), made(reset),
	}
	page, err := os.ReadFile("../../docs/reference/operations.md")
	require.NoError(t, err)
	for _, row := range []struct{ policies, situation, want string }{
		{free, "off", "+      phase  phase  phase  phase  phase"},
		{free, "pending", "phase  +      +      phase  phase  phase"},
		{free, "starting", "phase  +      +      +      +      phase"},
		{free, "running", "phase  +      +      +      +      +"},
		{free, "failed", "+      +      +      phase  phase  phase"},
		{free, "stopping", "+      phase  +      phase  +      phase"},
		{free, "restarting", "phase  +      +      phase  +      phase"},
		{on, "running", "policy policy policy +      +      +"},
		{on, "failed", "+      policy policy phase  phase  phase"},
		{on, "restarting", "policy policy policy phase  +      phase"},
		{off, "off", "policy phase  phase  policy policy phase"},
		{off, "stopping", "policy phase  +      policy policy phase"},
	} {
		shown := strings.ReplaceAll(row.policies, free, "none, AlwaysOnUnlessStoppedManually, Manual")
		shown = fmt.Sprintf("| %s | %s | %s |", shown, row.situation, strings.Join(strings.Fields(row.want), " | "))
		require.Contains(t, string(page), strings.ReplaceAll(shown, "+", "yes")+"\n")
		for _, policy := range strings.Split(row.policies, " ") {
			for i, want := range strings.Fields(row.want) {
				vm, pod := machine(v1.RunPolicy(policy), row.situation)
				got := "+"
				r := Possible(columns[i].Spec, vm, pod, nil)
				if r != nil {
					got = map[string]string{
						reasonNotApplicableForPhase: "phase", reasonNotApplicableForPolicy: "policy",
					}[r.Reason]
				}
				require.Equal(t, want, got, "%s, policy %q: %+v: %v", row.situation, policy, columns[i].Spec, r)
			}
		}
	}
}

// A refusal contains what would be possible.
func TestRefusals(t *testing.T) {
	t.Parallel()
	refuse := func(o *v1.VirtualMachineOperation, policy v1.RunPolicy, situation string) string {
		vm, pod := machine(policy, situation)
		r := Possible(o.Spec, vm, pod, nil)
		require.Error(t, r)
		return r.Reason + ": " + r.Message
	}
	for _, o := range []*v1.VirtualMachineOperation{made(v1.OperationEvict), made(v1.OperationMigrate)} {
		require.Equal(t, "NotApplicableForPhase: the VM is Stopped: only the guest of a VM that is Running can move",
			refuse(o, "", "off"))
	}
	move := func(of *v1.VirtualMachine, labels map[string]string) string {
		_, pod := machine("", "running")
		of.Status.Phase = v1.PhaseRunning
		to := &v1.MigrateOptions{NodeSelector: labels}
		o := v1.VirtualMachineOperationSpec{Type: v1.OperationMigrate, Migrate: to}
		if r := Possible(o, of, pod, nil); r != nil {
			return r.Reason + ": " + r.Message
		}
		return ""
	}
	stuck := &v1.VirtualMachine{}
	require.Empty(t, move(stuck, nil))
	require.Contains(t, move(stuck, map[string]string{"zone": "b or c"}),
		`NotMigratable: spec.migrate.nodeSelector: Invalid value: "b or c"`)
	stuck.Spec.NodeName = "n1"
	require.Equal(t, "NotMigratable: the guest can't leave its node: spec.nodeName names it. With Restart the "+
		"scheduler chooses a node again; with migrate: {nodeSelector: {kubernetes.io/hostname: n1}} the guest moves to "+
		"a new pod on its node", move(stuck, nil))
	require.Empty(t, move(stuck, map[string]string{"kubernetes.io/hostname": "n1"}))
	stuck.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{{Kind: v1.KindVirtualDisk, Name: "data", Hotplugged: true}}
	require.Empty(t, move(stuck, map[string]string{"kubernetes.io/hostname": "n1"}))
	stuck.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
	require.Equal(t, "NotMigratable: the guest can't move: spec.blockDeviceRefs[0]: the VirtualDisk data is attached while "+
		"the guest runs, and another pod would mount it: detach it first, or restart the VM",
		move(stuck, map[string]string{"kubernetes.io/hostname": "n1"}))

	require.Equal(t, "NotApplicableForRunPolicy: spec.runPolicy is AlwaysOff: the VM can't be started before it is "+
		"AlwaysOnUnlessStoppedManually or Manual", refuse(made(start), v1.AlwaysOff, "off"))
	require.Contains(t, refuse(made(start), v1.AlwaysOn, "running"), "starts automatically")
	require.Contains(t, refuse(made(stop), "", "stopping"), "force: true ends its guest immediately")
	require.Contains(t, refuse(made(restart), "", "off"), "the VM is Stopped: start it")

	vm, pod := machine("", "running")
	vm.Status.Conditions = []metav1.Condition{
		{Type: v1.ConditionVMTypeAccepted, Status: metav1.ConditionFalse, Message: "no such option"},
	}
	require.Equal(t, &Refusal{reasonNotApplicableForType, "the VM could not be started again: no such option"},
		Possible(made(restart).Spec, vm, pod, nil), "it is not stopped for a restart that fails")
	vm.DeletionTimestamp = &metav1.Time{Time: noon}
	for _, o := range []*v1.VirtualMachineOperation{made(start), made(stop), made(restart, true), made(reset)} {
		require.Contains(t, Possible(o.Spec, vm, pod, nil).Message, "is being deleted")
	}
	require.Nil(t, Possible(made(stop, true).Spec, vm, pod, nil), "its guest may be ended")
}

// Which operations replace which.
func TestSupersession(t *testing.T) {
	t.Parallel()
	all := map[string]*v1.VirtualMachineOperation{
		"start": made(start), "stop": made(stop), "stop!": made(stop, true), "restart": made(restart),
		"restart!": made(restart, true), "reset": made(reset),
	}
	for active, by := range map[string]string{
		"start": "stop stop!", "stop": "stop! restart!", "stop!": "", "restart": "stop! restart!", "restart!": "",
		"reset": "stop stop! restart restart!",
	} {
		for name, o := range all {
			want := strings.Contains(" "+by+" ", " "+name+" ")
			require.Equal(t, want, supersedesActive(o.Spec, all[active].Spec), "%s by %s", active, name)
		}
	}
}

// situation returns a situation with a VM from machine.
func situation(is string, ops ...*v1.VirtualMachineOperation) Situation {
	s := Situation{
		Operations: ops, Now: noon, Retention: Retention{10, 24 * time.Hour},
		Seen: func(types.UID) time.Time { return noon },
	}
	if is != "" {
		s.VM, s.Pod = machine("", is)
	}
	return s
}

// active returns an operation that was accepted for a VM, with its signal sent.
func active(o *v1.VirtualMachineOperation, is string) *v1.VirtualMachineOperation {
	s := situation(is, o)
	return s.SentNow(s.acceptOperation(o), 3)
}

func TestAnOperationIsAcceptedWithItsTarget(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		o      *v1.VirtualMachineOperation
		is     string
		target v1.OperationTarget
		signal Signal
	}{
		{made(start), "off", v1.OperationTarget{}, Signal{
			Patch:     []byte(`{"metadata":{"uid":"vm-1"},"spec":{"vm":{"state":"Running"}}}`),
			PatchType: types.MergePatchType,
		}},
		{made(start), "failed", v1.OperationTarget{ResetCounter: new(int64(1))}, Signal{
			Patch: []byte(`[{"op":"test","path":"/metadata/uid","value":"vm-1"},` +
				`{"op":"test","path":"/metadata/generation","value":3},{"op":"add","path":"/spec/resetCounter","value":1}]`),
			PatchType: types.JSONPatchType,
		}},
		{made(stop), "running", v1.OperationTarget{PodUID: "pod-1"}, Signal{
			Patch:     []byte(`{"metadata":{"uid":"vm-1"},"spec":{"vm":{"state":"Stopped"}}}`),
			PatchType: types.MergePatchType,
		}},
		{made(stop, true), "stopping", v1.OperationTarget{PodUID: "pod-1"}, Signal{DeletePod: "pod-1", AtOnce: true}},
		{made(restart), "running", v1.OperationTarget{PodUID: "pod-1"}, Signal{DeletePod: "pod-1"}},
		{made(restart, true), "stopping", v1.OperationTarget{PodUID: "pod-1"}, Signal{
			DeletePod: "pod-1", AtOnce: true,
			Patch:     []byte(`{"metadata":{"uid":"vm-1"},"spec":{"vm":{"state":"Running"}}}`),
			PatchType: types.MergePatchType,
		}},
	} {
		s := situation(row.is, row.o)
		p := Decide(s)
		require.Len(t, p.Write, 1)
		require.Same(t, p.Send, p.Write[0])
		require.Equal(t, v1.OperationInProgress, p.Send.Status.Phase)
		row.target.VirtualMachineUID = "vm-1"
		require.Equal(t, &row.target, p.Send.Status.Target)
		require.False(t, Sent(p.Send))
		signal, err := SignalOf(p.Send, s.VM, s.Pod)
		require.NoError(t, err)
		require.Equal(t, row.signal, signal, "%s: %s", row.is, signal.Patch)
		require.Empty(t, row.o.Status.Phase, "what the store has is not changed")
	}
}

// A manager that finds a target, but doesn't know whether the signal was sent, sends no signal that already had its
// effect.
func TestASignalIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		o      *v1.VirtualMachineOperation
		before string
		after  string
		change func(*v1.VirtualMachine, *corev1.Pod)
	}{
		{o: made(start), before: "off", after: "starting"},
		{o: made(stop), before: "running", after: "stopping"},
		{o: made(stop, true), before: "running", after: "off"},
		{o: made(restart), before: "running", after: "running", change: func(_ *v1.VirtualMachine, pod *corev1.Pod) {
			pod.UID = "pod-2"
		}},
		{o: made(reset), before: "running", after: "running", change: func(vm *v1.VirtualMachine, _ *corev1.Pod) {
			vm.Spec.ResetCounter = new(int64(1))
		}},
		{o: made(start), before: "failed", after: "starting", change: func(vm *v1.VirtualMachine, _ *corev1.Pod) {
			vm.Spec.ResetCounter = new(int64(7))
		}},
	} {
		s := situation(row.before, row.o)
		unsent := s.acceptOperation(row.o)
		first, err := SignalOf(unsent, s.VM, s.Pod)
		require.NoError(t, err)
		require.NotEqual(t, Signal{AtOnce: row.o.Spec.Force}, first)
		s = situation(row.after, unsent)
		if row.change != nil {
			row.change(s.VM, s.Pod)
		}
		require.Same(t, unsent, Decide(s).Send)
		again, err := SignalOf(unsent, s.VM, s.Pod)
		require.NoError(t, err)
		require.Empty(t, again.DeletePod, "%+v", row)
		require.Nil(t, again.Patch, "%+v", row)
		sent := situation(row.after, s.SentNow(unsent, 4))
		require.Nil(t, Decide(sent).Send)
	}
}

// Outcomes of the active operation.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	another := func(_ *v1.VirtualMachine, pod *corev1.Pod) { pod.UID = "pod-2" }
	type change = func(*v1.VirtualMachine, *corev1.Pod)
	moved := func(by types.UID, stage v1.MigrationStage) change {
		return func(vm *v1.VirtualMachine, _ *corev1.Pod) {
			vm.Status.Migration = &v1.Migration{OperationUID: by, Stage: stage, Message: "why"}
		}
	}
	reports := func(generation int64, reason vmstatus.Reason, ready metav1.ConditionStatus) change {
		return func(vm *v1.VirtualMachine, _ *corev1.Pod) {
			vm.Status.Conditions = []metav1.Condition{
				{
					Type: v1.ConditionConfigApplied, ObservedGeneration: generation,
					Message: "vm.options.resetCounter: why", Reason: string(reason),
				},
				{Type: v1.ConditionReady, Status: ready},
			}
		}
	}
	for _, row := range []struct {
		o          *v1.VirtualMachineOperation
		before, is string
		change     func(*v1.VirtualMachine, *corev1.Pod)
		want       string // "" means in progress
	}{
		{made(start), "off", "starting", nil, ""},
		{made(start), "off", "running", nil, "Completed: the guest is running on node n1"},
		{made(start), "off", "failed", nil, "Failed: Crashed: the VM has failed: boom"},
		{made(start), "off", "off", nil, "Failed: Overruled: the VM has been set to Stopped in the meantime"},
		{made(start), "off", "", nil, "Failed: VirtualMachineDeleted: the VM has been deleted meanwhile"},
		{made(start), "off", "failed", func(vm *v1.VirtualMachine, _ *corev1.Pod) {
			vm.Status.ObservedGeneration = 2
		}, ""},
		{made(stop), "running", "stopping", nil, ""},
		{made(stop), "running", "off", nil, "Completed: the VM is off"},
		{made(stop), "running", "running", nil, "Failed: Overruled: the VM has been set to Running meanwhile"},
		{made(stop), "running", "", nil, "Completed: the VM has been deleted"},
		{made(restart), "running", "running", nil, ""},
		{made(restart), "running", "restarting", nil, ""},
		{made(restart), "running", "pending", nil, ""},
		{made(restart), "running", "starting", another, ""},
		{made(restart), "running", "running", func(vm *v1.VirtualMachine, pod *corev1.Pod) {
			pod.UID, vm.Status.Runner.PodUID = "pod-2", "pod-2"
		}, "Completed: the guest is running on node n1"},
		{made(restart), "running", "running", another, ""},
		{made(restart), "running", "failed", nil, "Failed: Crashed: the VM has failed: boom"},
		{made(restart), "running", "off", nil, "Failed: Overruled: the VM has been set to Stopped in the meantime"},
		{made(reset), "running", "running", reports(2, vmstatus.ReasonApplied, metav1.ConditionTrue), ""},
		{
			made(reset), "running", "running", reports(3, vmstatus.ReasonApplied, metav1.ConditionTrue),
			"Completed: the machine has been reset",
		},
		{
			made(reset), "running", "running", reports(3, vmstatus.ReasonNotReset, metav1.ConditionTrue),
			"Failed: NotReset: vm.options.resetCounter: why",
		},
		{
			made(reset), "running", "running", reports(3, vmstatus.ReasonNotPossible, metav1.ConditionTrue),
			"Completed: the machine has been reset",
		},
		{made(reset), "running", "running", reports(3, vmstatus.ReasonApplying, metav1.ConditionTrue), ""},
		{made(reset), "running", "running", reports(3, vmstatus.ReasonNotReset, metav1.ConditionFalse), "waits"},
		{made(reset), "running", "running", another, "Failed: Overruled: the guest has ended meanwhile"},
		{made(v1.OperationEvict), "running", "running", moved("another", v1.MigrationCompleted), ""},
		{made(v1.OperationEvict), "running", "running", moved("uid-Evict", v1.MigrationMoving), "waits"},
		{made(v1.OperationEvict), "running", "running", moved("uid-Evict", v1.MigrationCompleted), "Completed: why"},
		{
			made(v1.OperationMigrate), "running", "off", moved("uid-Migrate", v1.MigrationFailed),
			"Failed: MigrationFailed: the guest has not moved: why",
		},
	} {
		s := situation(row.is, active(row.o, row.before))
		if row.change != nil {
			row.change(s.VM, s.Pod)
		}
		p := Decide(s)
		if row.want == "" {
			require.Empty(t, p.Write, "%+v", row)
			continue
		}
		require.Len(t, p.Write, 1, "%+v", row)
		require.Nil(t, p.Send)
		status := p.Write[0].Status
		if row.want == "waits" {
			require.Equal(t, v1.OperationInProgress, status.Phase)
			require.Nil(t, status.CompletionTime)
			s.Operations = p.Write
			require.Empty(t, Decide(s).Write, "it is written once")
			continue
		}
		require.Equal(t, noon, status.CompletionTime.Time)
		got := fmt.Sprintf("%s: %s: %s", status.Phase, status.Reason, status.Message)
		require.Equal(t, row.want, strings.Replace(got, "OperationCompleted: ", "", 1), "%+v", row)
		require.Equal(t, status.Phase == v1.OperationCompleted, status.Conditions[0].Status == metav1.ConditionTrue)
	}
}

// Only one operation is active; later ones replace it or fail.
func TestOneIsActive(t *testing.T) {
	t.Parallel()
	running := active(made(restart), "running")
	p := Decide(situation("running", running, made(stop), made(stop, true)))
	require.Len(t, p.Write, 3)
	require.Equal(t, v1.OperationFailed, p.Write[0].Status.Phase)
	require.Equal(t, "the operation op-restart (Restart) is in progress: wait for its end, or delete it",
		p.Write[0].Status.Message)
	require.Equal(t, v1.OperationSuperseded, p.Write[1].Status.Phase)
	require.Equal(t, running.UID, p.Write[1].UID)
	require.Equal(t, "the operation op-stop (Stop) has taken its place", p.Write[1].Status.Message)
	require.Same(t, p.Send, p.Write[2])

	moving := active(made(v1.OperationMigrate), "running")
	for kind, takes := range map[v1.OperationType]bool{
		stop: true, restart: true, reset: false, v1.OperationEvict: false,
	} {
		p = Decide(situation("running", moving, made(kind)))
		require.Equal(t, takes, p.Send != nil, kind)
	}

	p = Decide(situation("off", made(restart), made(start), made(stop)))
	require.Len(t, p.Write, 2, "the third one is decided about when the VM is known to be set to Running")
	require.Equal(t, reasonNotApplicableForPhase, p.Write[0].Status.Reason)
	require.Equal(t, start, p.Send.Spec.Type)

	deleted := active(made(start), "off")
	deleted.DeletionTimestamp, deleted.Status.Conditions = &metav1.Time{Time: noon}, nil
	require.Nil(t, Decide(situation("off", deleted)).Send, "its signal is no longer sent")
	waiting := made(start)
	waiting.DeletionTimestamp = &metav1.Time{Time: noon}
	require.Equal(t, Plan{}, Decide(situation("off", waiting)))
}

// An operation may briefly be known before its VM.
func TestTheVMIsNotThere(t *testing.T) {
	t.Parallel()
	o := made(start)
	o.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
	p := Decide(situation("", o))
	require.Empty(t, p.Write)
	require.Equal(t, noon.Add(2*time.Second), p.Again)
	for _, made := range []time.Duration{-time.Minute, time.Hour} { // the second from a wrong clock
		o.CreationTimestamp = metav1.NewTime(noon.Add(made))
		p = Decide(situation("", o))
		require.Len(t, p.Write, 1)
		require.Equal(t, "there is no VM web in this namespace", p.Write[0].Status.Message)
	}
}

// Finished operations are removed after some time, and the oldest if there are too many. A clock change removes no
// recent ones, and keeps none forever.
func TestRetention(t *testing.T) {
	t.Parallel()
	const ago, day = -time.Hour, 24 * time.Hour
	for _, row := range []struct {
		what           string
		finished, seen time.Duration // from now
		expires        time.Duration
	}{
		{"known all the time", ago, ago, day + ago},
		{"of an earlier manager", -2 * day, -10 * time.Minute, 0},
		{"of an earlier manager, just found", -2 * day, 0, 10 * time.Minute},
		{"the clock has been set forward", -400 * day, -time.Minute, 9 * time.Minute},
		{"the clock has been set back", 400 * day, ago, day + ago},
		{"the clock has been set back long ago", 400 * day, -day, 0},
	} {
		at := Retention{10, day}.expiryOf(noon.Add(row.finished), noon.Add(row.seen))
		require.Equal(t, noon.Add(row.expires), at, row.what)
	}
	require.Equal(t, noon.Add(time.Second), Retention{10, time.Second}.expiryOf(noon, noon))

	var all []*v1.VirtualMachineOperation
	for i := range 5 {
		o := made(reset)
		o.Name, o.UID = fmt.Sprint("op-", i), types.UID(fmt.Sprint(i))
		o.Status.Phase = v1.OperationFailed
		o.Status.CompletionTime = &metav1.Time{Time: noon.Add(time.Duration(i) * -time.Minute)}
		all = append(all, o)
	}
	s := situation("running", append(all, active(made(restart), "running"))...)
	s.Retention.Most = 3
	p := Decide(s)
	require.Equal(t, all[3:], p.Remove)
	require.Equal(t, noon.Add(day-2*time.Minute), p.Again)
	s.Retention.Most = 0
	require.Equal(t, all, Decide(s).Remove)
	s.Retention = Retention{10, day}
	s.Now = noon.Add(day + time.Hour)
	require.Equal(t, []types.UID{"4", "3", "2", "1", "0"}, uids(Decide(s).Remove), "all but the active one")
}

func uids(ops []*v1.VirtualMachineOperation) (all []types.UID) {
	for _, o := range ops {
		all = append([]types.UID{o.UID}, all...)
	}
	return all
}
