package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// was sets the phase and the reason in the status.
func was(phase v1.Phase, reason string) func(*Situation) {
	return func(s *Situation) { s.VM.Status.Phase, s.VM.Status.Reason = phase, reason }
}

func started(initiator string) Event {
	return Event{"Started", "Start", initiator, "the guest is running on node n1", "1", false}
}

// Each change has one event, which names its initiator and has a unique key.
func TestEvents(t *testing.T) {
	t.Parallel()
	running := Phase{Phase: v1.PhaseRunning}
	stopped := Phase{v1.PhaseStopped, ReasonStopped, "", false}
	restarting := Phase{v1.PhaseStopping, reasonPodDeleted, "", false}
	failing := Phase{v1.PhaseFailed, ReasonCrashed, "it broke", false}
	ended := func(cause string) func(*Situation) {
		return said(stateStopped, &v1.Outcome{Cause: cause, Message: "so it was"})
	}
	failed := func(last *v1.Outcome) func(*Situation) {
		return func(s *Situation) {
			s.Failures = &v1.Failures{Count: 1, LastTime: metav1.NewTime(noon), Last: last}
		}
	}
	failure := func(reason, initiator, message string) Event {
		return Event{reason, "Start", initiator, message, noon.Format(time.RFC3339), true}
	}
	lost := Phase{v1.PhasePending, reasonWaitingForOldPod, "there is another pod", false}
	waiting := func(key string) []Event {
		return []Event{{reasonWaitingForOldPod, "Start", byNode, lost.Message, key, true}}
	}
	const notRequested = "the VM has stopped because spec.vm.state is Stopped"
	off := func(more ...func(*Situation)) Situation {
		return is(append([]func(*Situation){was(v1.PhaseStopping, ""), notWanted, noPod}, more...)...)
	}
	stop := func(initiator, note string, warning bool) []Event {
		return []Event{{"Stopped", "Stop", initiator, note, "1", warning}}
	}
	restart := func(initiator string) []Event {
		const note = "pod web-0 is being deleted; the VM restarts in a new pod"
		return []Event{{"Restarting", "Restart", initiator, note, "1", false}}
	}
	disrupted := func(reason string) Situation {
		target := corev1.PodCondition{Type: corev1.DisruptionTarget, Reason: reason}
		return is(was(v1.PhaseRunning, ""), conditions(target))
	}
	for what, tt := range map[string]struct {
		s    Situation
		p    Phase
		want []Event
	}{
		"starts":  {is(was(v1.PhaseStarting, "")), running, []Event{started(ByUser)}},
		"runs on": {is(was(v1.PhaseRunning, "")), running, nil},
		"starts after a failure": {
			is(was(v1.PhaseStarting, ""), failures(1, time.Minute)), running, []Event{started(ByManager)},
		},
		"starts after old failures": {
			is(was(v1.PhaseStarting, ""), failures(0, time.Minute)), running, []Event{started(ByUser)},
		},
		"is stopped without a runner":  {off(noPodYet), stopped, nil},
		"is stopped":                   {off(), stopped, stop(ByUser, notRequested, false)},
		"is stopped, as asked":         {off(ended(causeAsked)), stopped, stop(ByUser, notRequested, false)},
		"is stopped when it has ended": {off(ended("killed")), stopped, stop(ByUser, notRequested+": killed", false)},
		"is stopped by its guest": {off(carriedOut, ended(causeGuest)), stopped, stop(byGuest,
			"the guest has shut down, and the VM was stopped (spec.guestShutdownStops)", false)},
		"stays off after a crash": {off(policy(v1.Manual), carriedOut, ended("killed")), stopped, stop(ByManager,
			"the VM has crashed, and stays off (spec.runPolicy Manual): so it was", true)},
		"its pod is deleted":          {is(was(v1.PhaseRunning, ""), going(noon)), restarting, restart(ByUser)},
		"its pod is evicted":          {disrupted("EvictionByEvictionAPI"), restarting, restart(ByUser)},
		"its node shuts down":         {disrupted("TerminationByKubelet"), restarting, restart(byNode)},
		"is being deleted, as before": {is(was(v1.PhaseStopping, reasonPodDeleted), going(noon)), restarting, nil},
		"fails": {
			is(was(v1.PhaseFailed, ReasonCrashed), failed(&v1.Outcome{Cause: "killed"})), failing,
			[]Event{failure(ReasonCrashed, byRunner, "it broke")},
		},
		"fails for its guest": {
			is(was(v1.PhaseFailed, ReasonCrashed), failed(nil), panicked), failing,
			[]Event{failure(ReasonCrashed, byGuest, "it broke")},
		},
		"fails for a node that is missing": {
			is(was(v1.PhaseFailed, ""), failed(&v1.Outcome{Reason: reasonNodeMissing})), failing,
			[]Event{failure(ReasonCrashed, ByUser, "it broke")},
		},
		"has failed unnoticed": {
			is(was(v1.PhaseRunning, ""), failed(&v1.Outcome{Cause: causeStart, Message: "no disk"})), running,
			[]Event{failure(reasonStartFailed, byRunner, "no disk")},
		},
		"has failed, as told before": {
			is(was(v1.PhaseFailed, ReasonCrashed), failures(1, time.Minute)), failing, nil,
		},
		"has forgotten its failures": {
			is(was(v1.PhaseRunning, ""), failed(nil), func(s *Situation) { s.Failures.Count = 0 }), running, nil,
		},
		"waits for an old pod": {is(noPodYet, was(v1.PhasePending, ""), stray), lost, waiting("")},
		"waits for its pod":    {is(was(v1.PhasePending, "")), lost, waiting("1")},
		"waits on":             {is(was(v1.PhasePending, reasonWaitingForOldPod)), lost, nil},
		"its node is lost": {
			is(was(v1.PhaseRunning, "")),
			Phase{v1.PhaseRunning, reasonNodeLost, "silence", false},
			[]Event{{reasonNodeLost, "Start", byNode, "silence", "1", true}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Events(tt.s, Findings{}, tt.p))
		})
	}
}

// A refused type has an event only if its message is new.
func TestEventsOfTheType(t *testing.T) {
	t.Parallel()
	s := is(was(v1.PhaseRunning, ""), func(s *Situation) { s.VM.Generation = 3 })
	p, refused := Phase{Phase: v1.PhaseRunning}, Findings{Type: TypeRefused("no such type")}
	want := []Event{{ReasonTypeRefused, "CheckType", ByUser, "no such type", "3no such type", true}}
	require.Equal(t, want, Events(s, refused, p))
	s.VM.Status.Conditions = []metav1.Condition{{Type: v1.ConditionVMTypeAccepted, Message: "another fault"}}
	require.Equal(t, want, Events(s, refused, p))
	s.VM.Status.Conditions[0].Message = "no such type"
	require.Empty(t, Events(s, refused, p))
	require.Empty(t, Events(s, Findings{Type: TypeAccepted()}, p))
}

// For a VM without a pod, the key of an event comes from the stray pod that it waits for.
func TestPodsOfAnEvent(t *testing.T) {
	t.Parallel()
	require.Empty(t, podsOf(is(noPod)))
	strays := is(noPod, stray)
	strays.Strays[0].UID = "old"
	require.Equal(t, "old", podsOf(strays))
	require.Equal(t, "1", podsOf(is(stray)))
}

func TestPodReplaced(t *testing.T) {
	t.Parallel()
	const again = "the machine has ended (why); it restarts in a new pod"
	for what, tt := range map[string]struct {
		s         Situation
		initiator string
		note      string
	}{
		"could not be started": {
			is(func(s *Situation) { s.Pod.Spec.NodeName, s.Pod.Status.ContainerStatuses = "", nil }), ByUser,
			"pod web-0 could not be started, and the definition has changed: a new pod is created",
		},
		"has ended well":    {is(with(terminatedWith(0, ""))), byGuest, again},
		"has failed":        {is(with(terminatedWith(1, ""))), byRunner, again},
		"has not ended yet": {is(), byRunner, again},
	} {
		require.Equal(t, Event{"Restarting", "Restart", tt.initiator, tt.note, "1", false},
			PodReplaced(tt.s.Snapshot, "why"), what)
	}
}

// Recreating the claim with the machine's state is a warning.
func TestClaimMade(t *testing.T) {
	t.Parallel()
	disk := ClaimMade(&objects.Claim{Name: "data-web-0", Path: "spec.vm.disks[0]"}, "u")
	require.Equal(t, Event{
		"ClaimMade", "MakeClaim", ByManager,
		"PersistentVolumeClaim data-web-0 has been created for spec.vm.disks[0]: it is empty", "u", false,
	}, disk)
	state := ClaimMade(&objects.Claim{Name: "runner-data-web-0"}, "u")
	require.True(t, state.Warning)
	require.Equal(t, "PersistentVolumeClaim runner-data-web-0 has been created for the runner's data: it is empty, "+
		"since the previous one is gone: the machine gets a new uuid, firmware variables and TPM", state.Note)
}

// A combined report has the first obstacle, all problems, the earliest time and every error.
func TestReports(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	waits := Waiting{"Waits", "for a claim", noon.Add(time.Minute)}
	stalls := Stalled{"Stalls", "for ever"}
	var all, step Report
	all.Stop(nil, nil)
	require.Zero(t, all)
	all.Stop(waits, nil)
	require.Equal(t, Report{waits, []Problem{{"Waits", "for a claim"}}, waits.Until, nil}, all)
	step.Stop(stalls, first)
	require.Equal(t, Report{stalls, []Problem{{"Stalls", "for ever"}}, time.Time{}, errors.Join(first)}, step)
	step.RetryAt(noon)
	step.Stop(nil, second)
	require.Equal(t, stalls, step.Obstacle, "the first one's")
	require.Equal(t, []Problem{{"Stalls", "for ever"}, {ReasonRetrying, "second"}}, step.Problems)
	all.Append(step)
	require.Equal(t, waits, all.Obstacle)
	require.Len(t, all.Problems, 3)
	require.Equal(t, noon, all.Again)
	require.ErrorIs(t, all.Err, first)
	require.ErrorIs(t, all.Err, second)
	all.RetryAt(noon.Add(time.Second))
	all.RetryAt(time.Time{})
	require.Equal(t, noon, all.Again)
	var none Report
	none.Append(step)
	require.Equal(t, stalls, none.Obstacle)
	var failed Report
	failed.Stop(nil, first)
	require.Equal(t, Waiting{Reason: ReasonRetrying, Message: "first"}, failed.Obstacle)
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "four": "four", "longer": "long…", "für uns": "für…", "abcü": "abc…", "äöüß": "äö…",
	} {
		require.Equal(t, want, Shorten(text, 4), text)
	}
	require.Equal(t, "…", Shorten("ü", 0))
	require.Equal(t, "…", Shorten("ü", 1))
}

func TestHappenedAt(t *testing.T) {
	t.Parallel()
	e := &eventsv1.Event{EventTime: metav1.NewMicroTime(noon)}
	require.Equal(t, noon, HappenedAt(e))
	e.DeprecatedLastTimestamp = metav1.NewTime(noon.Add(time.Second))
	require.Equal(t, noon.Add(time.Second), HappenedAt(e))
	e.Series = &eventsv1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon.Add(time.Minute))}
	require.Equal(t, noon.Add(time.Minute), HappenedAt(e))
}

// A permanent rejection by the API server is an obstacle that the user must resolve; other errors are temporary.
func TestRefused(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "pods"}
	for what, tt := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":            {nil, false},
		"an invalid object":  {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), true},
		"a quota":            {apierrors.NewForbidden(resource, "web", errors.New("exceeded quota")), true},
		"a bad request":      {apierrors.NewBadRequest("no"), true},
		"a large object":     {apierrors.NewRequestEntityTooLargeError("large"), true},
		"too large for etcd": {errors.New("etcdserver: request is too large"), true},
		"a conflict":         {apierrors.NewConflict(resource, "web", errors.New("changed")), false},
		"no connection":      {errors.New("connection refused"), false},
	} {
		refused, field := Refused(tt.err), RefusedFor("spec.vm", tt.err)
		if !tt.want {
			require.Nil(t, refused, what)
			require.Nil(t, field, what)
			continue
		}
		require.Equal(t, Stalled{ReasonRefused, Readable(tt.err.Error())}, refused, what)
		require.Equal(t, Stalled{ReasonRefused, "spec.vm: " + Readable(tt.err.Error())}, field, what)
	}
}

// The message about a rejected pod omits the component that rejected it and names the responsible fields.
func TestPodRejected(t *testing.T) {
	t.Parallel()
	s := &Snapshot{VM: machine("web"), Settings: objects.DefaultSettings()}
	s.VM.Spec.VM.Accelerator = "kvm"
	const controller = "create Pod web-0 in StatefulSet web failed error: "
	for note, want := range map[string]string{
		"it is broken":              "the pod is rejected: it is broken",
		controller + "it is broken": "the pod is rejected: it is broken",
		controller + "no PriorityClass of that name": "the pod is rejected: no PriorityClass of that name; " +
			"it is set by spec.priorityClassName",
		controller + "violates PodSecurity": "the pod is rejected: violates PodSecurity; it needs this for " +
			"spec.vm.accelerator (kvm) (status.privileges); the namespace's label pod-security.kubernetes.io/enforce sets what is allowed",
		"exceeded quota": "the pod is rejected: exceeded quota; " + objects.Requests(s.VM, s.Settings),
		"maximum memory": "the pod is rejected: maximum memory; " + objects.Requests(s.VM, s.Settings),
		"maximum cpu":    "the pod is rejected: maximum cpu; " + objects.Requests(s.VM, s.Settings),
	} {
		require.Equal(t, want, PodRejected(s, note))
	}
}
