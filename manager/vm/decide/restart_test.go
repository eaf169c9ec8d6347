package decide

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// awaitsRestart returns a VM that runs in the pod "now" with a change that the manager may apply immediately with a
// restart.
func awaitsRestart() (Situation, Findings) {
	vm := machine("web")
	vm.Generation = 3
	vm.Spec.Disruptions = &v1.Disruptions{RestartApprovalMode: v1.RestartAutomatic}
	vm.Status = v1.VirtualMachineStatus{
		ObservedGeneration: 3,
		Runner:             &v1.RunnerStatus{PodUID: "now", State: "Booted", ComparedGeneration: 3},
		Conditions:         []metav1.Condition{{Type: v1.ConditionReady, Status: metav1.ConditionTrue}},
		RestartAwaitingChanges: []v1.RestartAwaitingChange{{
			Path: "vm.maximumCpus", Operation: "replace", DesiredValue: &runtime.RawExtension{Raw: []byte("2")},
		}},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "now"}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: objects.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	s := Situation{Snapshot: &Snapshot{VM: vm, Pod: pod, Now: time.Unix(1000, 0)}}
	return s, Findings{Type: TypeAccepted(), Applied: true}
}

func recorded(pod string, hashes ...string) func(*Situation, *Findings) {
	return func(s *Situation, _ *Findings) {
		s.VM.Status.AutomaticRestart = &v1.AutomaticRestart{PodUID: apitypes.UID(pod), Changes: hashes}
	}
}

func TestRestartOf(t *testing.T) {
	t.Parallel()
	this := func() string {
		s, found := awaitsRestart()
		return RestartOf(s, found).changes[0]
	}()
	both := func(all ...func(*Situation, *Findings)) func(*Situation, *Findings) {
		return func(s *Situation, f *Findings) {
			for _, do := range all {
				do(s, f)
			}
		}
	}
	none := func(s *Situation, _ *Findings) { s.VM.Status.RestartAwaitingChanges = nil }
	stale := func(s *Situation, _ *Findings) { s.VM.Status.Runner.ComparedGeneration = 2 }
	ending := func(s *Situation, _ *Findings) { s.Pod.DeletionTimestamp = &metav1.Time{} }
	starting := func(s *Situation, _ *Findings) { s.VM.Status.Runner.State = "Booting" }
	noPod := func(s *Situation, _ *Findings) { s.Pod = nil }
	for what, tt := range map[string]struct {
		change func(*Situation, *Findings)
		want   string // the condition, "due", "busy", and the origin of the record
	}{
		"it is to be restarted": {func(*Situation, *Findings) {}, "True WaitingForRateLimit due"},
		"approved by hand": {
			func(s *Situation, _ *Findings) { s.VM.Spec.Disruptions = nil },
			"True ChangesPending",
		},
		"approved by hand by default": {func(s *Situation, _ *Findings) {
			s.VM.Spec.Disruptions = &v1.Disruptions{}
		}, "True ChangesPending"},
		"it is being moved": {func(s *Situation, _ *Findings) {
			s.VM.Status.Migration = &v1.Migration{Stage: v1.MigrationMoving}
		}, "True Migrating"},
		"nothing awaits": {none, "False NothingPending"},
		"it is to stop": {
			func(s *Situation, _ *Findings) { s.VM.Spec.VM.State = v1.Stopped },
			"True ChangesPending",
		},
		"the pod's change alone": {func(s *Situation, f *Findings) {
			f.Changes = []v1.RestartAwaitingChange{{Path: "nodeName"}}
			s.VM.Status.RestartAwaitingChanges = nil
		}, "True WaitingForRateLimit due"},

		"the runner has not compared": {stale, "True NotFresh"},
		"the manager has not looked": {
			func(s *Situation, _ *Findings) { s.VM.Status.ObservedGeneration = 2 },
			"True NotFresh",
		},
		"the next pod is another's": {
			func(_ *Situation, f *Findings) { f.Applied = false },
			"True NotFresh",
		},
		"the type is refused": {
			func(_ *Situation, f *Findings) { f.Type = TypeRefused("no") },
			"True TypeRefused",
		},
		"it could not start": {
			func(s *Situation, _ *Findings) { s.Obstacle = Stalled{"X", "y"} },
			"True CannotStart",
		},
		"its report is of another pod": {
			func(s *Situation, _ *Findings) { s.VM.Status.Runner.PodUID = "was" },
			"True NotRunning",
		},
		"there is no report": {
			func(s *Situation, _ *Findings) { s.VM.Status.Runner = nil },
			"True NotRunning",
		},
		"the guest boots": {starting, "True NotRunning"},
		"the guest is paused": {
			func(s *Situation, _ *Findings) { s.VM.Status.Conditions = nil },
			"True NotRunning",
		},
		"the container has ended": {
			func(s *Situation, _ *Findings) { s.Pod.Status.ContainerStatuses = nil },
			"True NotRunning",
		},
		"there is no pod":              {noPod, "True NotRunning"},
		"the pod is being deleted":     {ending, "True NotRunning"},
		"a restart is recorded":        {recorded("now", this), "True WaitingForRateLimit due now"},
		"a restart is being made":      {both(recorded("now", this), ending), "True NotRunning busy now"},
		"between the pods":             {both(recorded("was", this), noPod), "True NotRunning busy was"},
		"the next pod boots":           {both(recorded("was", this), starting), "True NotRunning busy was"},
		"it has not helped":            {recorded("was", this), "True RestartedAlready was"},
		"it was for more":              {recorded("was", "other", this), "True RestartedAlready was"},
		"it was for something else":    {recorded("was", "other"), "True WaitingForRateLimit due was"},
		"it has helped":                {both(recorded("was", this), none), "False NothingPending"},
		"it is not known if it helped": {both(recorded("was", this), none, stale), "False NothingPending was"},
		"reverted before it was made":  {both(recorded("now", this), none), "False NothingPending now"},
		"not fresh before it was made": {both(recorded("now", this), stale), "True NotFresh now"},
		"by hand, it was tried already": {
			both(recorded("was", this), func(s *Situation, _ *Findings) { s.VM.Spec.Disruptions = nil }),
			"True ChangesPending",
		},
	} {
		s, found := awaitsRestart()
		tt.change(&s, &found)
		r := RestartOf(s, found)
		got := string(r.Condition.Status) + " " + r.Condition.Reason
		if r.Due {
			got += " due"
		}
		if r.Busy {
			got += " busy"
		}
		if r.Record != nil {
			got += " " + string(r.Record.PodUID)
		}
		require.Equal(t, tt.want, got, what)
		require.False(t, r.Delete, what)
	}
}

// The manager first records the reasons for a restart, and then deletes the pod if it is unchanged.
func TestTakeARestart(t *testing.T) {
	t.Parallel()
	s, found := awaitsRestart()
	r := RestartOf(s, found)
	r.Advance(s, nil)
	require.False(t, r.Delete)
	require.Equal(t, reasonRestarting, r.Condition.Reason)
	require.Contains(t, r.Condition.Message, "waiting for a restart: vm.maximumCpus; the manager restarts the VM now")

	s.VM.Status.AutomaticRestart = r.Record
	again := RestartOf(s, found)
	require.True(t, again.Due)
	again.Advance(s, nil)
	require.True(t, again.Delete)
	require.Equal(t, r.Record, again.Record)

	found.Changes = []v1.RestartAwaitingChange{{Path: "nodeName"}}
	more := RestartOf(s, found)
	more.Advance(s, nil)
	require.False(t, more.Delete, "what it is for is recorded first")
	require.Len(t, more.Record.Changes, 2)

	s.Pod.UID, s.VM.Status.Runner.PodUID = "next", "next"
	s.VM.Status.RestartAwaitingChanges[0].DesiredValue.Raw = []byte("3")
	require.True(t, RestartOf(s, found).Due, "the change is another one")
}

// A change of the pod reaches the guest by a migration if possible. A restart is used if the guest can't move or its
// migration has failed.
func TestUpdateOf(t *testing.T) {
	t.Parallel()
	awaits := func(paths ...string) (Situation, Findings) {
		s, found := awaitsRestart()
		s.VM.Status.RestartAwaitingChanges = nil
		s.Pod.Spec.NodeName = "node1"
		for _, path := range paths {
			found.Changes = append(found.Changes, v1.RestartAwaitingChange{Path: path})
		}
		r := RestartOf(s, found)
		require.True(t, r.Due)
		s.VM.Status.AutomaticRestart = &v1.AutomaticRestart{PodUID: "now", Changes: r.changes}
		return s, found
	}
	oneNode := func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: &v1.VolumeClaimTemplate{}}}
	}
	for what, tt := range map[string]struct {
		paths []string
		edit  func(*v1.VirtualMachine)
		want  string
	}{
		"an image":                          {[]string{"image.source"}, nil, "node1"},
		"an image, with disks of its node":  {[]string{"image.source"}, oneNode, "node1"},
		"several":                           {[]string{"image.source", "resources.limits.cpu"}, nil, "node1"},
		"where it is to run":                {[]string{"nodeSelector"}, nil, "elsewhere"},
		"that, with disks of its node":      {[]string{"nodeSelector"}, oneNode, "restart"},
		"a named node":                      {[]string{"nodeName"}, nil, "restart"},
		"other volumes":                     {[]string{"claimNameSuffix"}, nil, "restart"},
		"a class":                           {[]string{"virtualMachineClass.cpu"}, nil, "restart"},
		"an image, and what is the runners": {[]string{"image.source", "vm.maximumCpus"}, nil, "restart"},
		"an image, with an attached disk": {[]string{"image.source"}, func(vm *v1.VirtualMachine) {
			vm.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{{Hotplugged: true}}
		}, "node1"},
	} {
		s, found := awaits(tt.paths...)
		if tt.edit != nil {
			tt.edit(s.VM)
		}
		r := RestartOf(s, found)
		r.Advance(s, nil)
		got := "restart"
		if r.Create {
			got = cmp.Or(r.Update.Spec.Migrate.NodeSelector[corev1.LabelHostname], "elsewhere")
		}
		require.Equal(t, tt.want, got, what)
		require.Equal(t, got == "restart", r.Delete, what)
	}

	s, found := awaits("image.source")
	r := RestartOf(s, found)
	has := func(change func(*v1.VirtualMachineOperation)) (create, restart bool) {
		o := r.Update.DeepCopy()
		change(o)
		again := RestartOf(s, found)
		again.Advance(s, []*v1.VirtualMachineOperation{o})
		return again.Create, again.Delete
	}
	for phase, restarts := range map[v1.OperationPhase]bool{
		"": false, v1.OperationInProgress: false, v1.OperationCompleted: false, v1.OperationFailed: true,
		v1.OperationSuperseded: true,
	} {
		create, restart := has(func(o *v1.VirtualMachineOperation) { o.Status.Phase = phase })
		require.Equal(t, []bool{false, restarts}, []bool{create, restart}, phase)
	}
	create, restart := has(func(o *v1.VirtualMachineOperation) {
		o.Name, o.Status.Phase = "other", v1.OperationInProgress
	})
	require.Equal(t, []bool{false, false}, []bool{create, restart}, "a user is doing something")
	create, restart = has(func(o *v1.VirtualMachineOperation) { o.Name, o.Status.Phase = "other", v1.OperationFailed })
	require.Equal(t, []bool{true, false}, []bool{create, restart})
	s.VM.Status.Runner.State = "Booting"
	create, restart = has(func(o *v1.VirtualMachineOperation) { o.Name, o.Status.Phase = "other", v1.OperationFailed })
	require.Equal(t, []bool{true, false}, []bool{create, restart}, "a guest that boots can be moved")
	_, restart = has(func(o *v1.VirtualMachineOperation) { o.Status.Phase = v1.OperationFailed })
	require.False(t, restart, "and not be asked to shut down")
	s.VM.Status.Runner.State = "Booted"
	_, restart = has(func(o *v1.VirtualMachineOperation) {
		o.Spec.Type, o.Status.Phase = v1.OperationStart, v1.OperationCompleted
	})
	require.True(t, restart, "someone has taken the name")
}
