package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// awaitsRestart is a VM that runs in the pod "now", with a change that the manager may restart it
// for at once.
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
		want   string // the condition, "due", "busy", and whose record is kept
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

// It is recorded what is restarted for, and then the pod is deleted, if it is the same still.
func TestTakeARestart(t *testing.T) {
	t.Parallel()
	s, found := awaitsRestart()
	r := RestartOf(s, found)
	r.Advance(s)
	require.False(t, r.Delete)
	require.Equal(t, ReasonRestarting, r.Condition.Reason)
	require.Contains(t, r.Condition.Message, "waiting for a restart: vm.maximumCpus; the manager restarts the VM now")

	s.VM.Status.AutomaticRestart = r.Record
	again := RestartOf(s, found)
	require.True(t, again.Due)
	again.Advance(s)
	require.True(t, again.Delete)
	require.Equal(t, r.Record, again.Record)

	found.Changes = []v1.RestartAwaitingChange{{Path: "nodeName"}}
	more := RestartOf(s, found)
	more.Advance(s)
	require.False(t, more.Delete, "what it is for is recorded first")
	require.Len(t, more.Record.Changes, 2)

	s.Pod.UID, s.VM.Status.Runner.PodUID = "next", "next"
	s.VM.Status.RestartAwaitingChanges[0].DesiredValue.Raw = []byte("3")
	require.True(t, RestartOf(s, found).Due, "the change is another one")
}
