package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// is makes a situation: a VM that shall run, on a pod that does.
func is(changes ...func(*situation)) situation {
	s := situation{vm: machine("test", "web"), now: noon}
	s.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "1"}}
	s.pod.Spec.NodeName = "n1"
	with(runningSince(noon.Add(-time.Minute)))(&s)
	said(stateBooted, nil)(&s)
	for _, change := range changes {
		change(&s)
	}
	return s
}

func with(status corev1.ContainerStatus) func(*situation) {
	status.Name, status.Ready = objects.ContainerName, status.State.Running != nil
	return func(s *situation) { s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{status} }
}

func said(state string, outcome *v1.Outcome) func(*situation) {
	return func(s *situation) {
		s.vm.Status.Runner = &v1.RunnerStatus{PodName: "web-0", PodUID: "1", State: state, Outcome: outcome}
	}
}

func conditions(c ...corev1.PodCondition) func(*situation) {
	return func(s *situation) { s.pod.Status.Conditions = c }
}

func unscheduledFor(reason, message string) func(*situation) {
	return func(s *situation) {
		noPodYet(s)
		s.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "1"}}
		conditions(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message})(s)
	}
}

func noPodYet(s *situation)       { s.pod, s.vm.Status.Runner = nil, nil }
func noPod(s *situation)          { s.pod = nil }
func notWanted(s *situation)      { s.vm.Spec.VM.State = v1.Stopped }
func deleted(s *situation)        { s.vm.DeletionTimestamp = &metav1.Time{Time: noon} }
func stopsWithGuest(s *situation) { s.vm.Spec.GuestShutdownStops = true }
func carriedOut(s *situation)     { s.vm.Annotations = map[string]string{annotationCarriedOut: "1"} }

func going(until time.Time) func(*situation) {
	return func(s *situation) { s.pod.DeletionTimestamp = &metav1.Time{Time: until} }
}

func held(o outcome) func(*situation) { return func(s *situation) { s.hold = o } }

func stray(s *situation) { s.strays = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}} }

func failures(count int32, ago time.Duration) func(*situation) {
	return func(s *situation) {
		s.failures = &v1.Failures{Count: count, LastTime: metav1.NewTime(noon.Add(-ago))}
		s.vm.Status.Failures = s.failures
	}
}

// neglectedFor is a pod on a node that the VM names, which has said nothing of it.
func neglectedFor(age time.Duration) func(*situation) {
	return func(s *situation) {
		noPodYet(s)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "1", CreationTimestamp: metav1.NewTime(noon.Add(-age))}}
		pod.Annotations = map[string]string{objects.AnnotationDefinition: `{"spec.nodeName":"n1"}`}
		pod.Spec.NodeName = "n1"
		s.pod = s.neglected(pod)
	}
}

func terminatedWith(code int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Message: message, FinishedAt: metav1.NewTime(noon.Add(-time.Second)),
	}}}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	killed := `{"cause":"killed","message":"by signal 9","exitCode":137}`
	for name, tt := range map[string]struct {
		s       situation
		phase   v1.Phase
		reason  string
		message string
	}{
		"deleted":                         {is(deleted), v1.PhaseTerminating, reasonDeleted, "deleted"},
		"stopped":                         {is(noPod, notWanted), v1.PhaseStopped, reasonStopped, "shall not run"},
		"stopped, and its type is wrong":  {is(noPod, notWanted, held(stalled{"X", "x"})), v1.PhaseStopped, reasonStopped, ""},
		"shall start":                     {is(noPodYet), v1.PhasePending, reasonPodMissing, "kubectl describe statefulset web"},
		"something is wrong":              {is(noPodYet, held(stalled{"Wrong", "field x"})), v1.PhaseFailed, "Wrong", "field x"},
		"something is awaited":            {is(noPodYet, held(waiting{reason: "Soon", message: "y"})), v1.PhasePending, "Soon", "y"},
		"something is wrong, but it runs": {is(held(stalled{"Wrong", ""})), v1.PhaseRunning, "", ""},
		"a stray pod":                     {is(noPodYet, stray), v1.PhasePending, reasonWaitingForOldPod, "pod web, "},
		"looks for a node":                {is(unscheduledFor("", "")), v1.PhasePending, reasonUnschedulable, ""},
		"finds none":                      {is(unscheduledFor("Unschedulable", "0/3 nodes are available: 3 Insufficient memory.")), v1.PhasePending, reasonUnschedulable, "Insufficient memory"},
		"a claim is missing":              {is(unscheduledFor("Unschedulable", `0/3 nodes are available: persistentvolumeclaim "vmop-image-repository" not found.`)), v1.PhasePending, reasonMissingClaim, "vmop-image-repository"},
		"a claim is not bound":            {is(unscheduledFor("Unschedulable", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")), v1.PhasePending, reasonClaimPending, ""},
		"gated":                           {is(unscheduledFor("SchedulingGated", "Scheduling is blocked")), v1.PhasePending, "SchedulingGated", ""},
		"its pod starts":                  {is(with(waitingFor("ContainerCreating", "")), said("", nil)), v1.PhaseStarting, reasonPodStarting, ""},
		"no image":                        {is(with(waitingFor("ErrImagePull", "not found"))), v1.PhasePending, reasonImagePull, "ErrImagePull: not found"},
		"a wrong image":                   {is(with(waitingFor("InvalidImageName", "x"))), v1.PhasePending, reasonImagePull, "x"},
		"no container":                    {is(with(waitingFor("CreateContainerError", "x"))), v1.PhasePending, reasonContainer, "CreateContainerError: x"},
		"a former pod's word":             {is(said(stateBooted, nil), func(s *situation) { s.vm.Status.Runner.PodUID = "0" }), v1.PhaseStarting, reasonPodStarting, ""},
		"the runner starts":               {is(said("Initializing", nil)), v1.PhaseStarting, reasonPodStarting, ""},
		"boots":                           {is(said(stateBooting, nil)), v1.PhaseRunning, "", ""},
		"runs":                            {is(), v1.PhaseRunning, "", ""},
		"the runner ends it":              {is(said(stateTerminating, nil)), v1.PhaseStopping, reasonGuestEnded, ""},
		"the node is silent":              {is(conditions(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})), v1.PhaseRunning, reasonNodeLost, "node n1"},
		"the pod is evicted":              {is(with(corev1.ContainerStatus{}), said("", nil), func(s *situation) { s.pod.Status.Phase, s.pod.Status.Reason = corev1.PodFailed, "Evicted" }), v1.PhasePending, "Evicted", ""},
		"shall stop":                      {is(notWanted), v1.PhaseStopping, reasonStopRequested, ""},
		"stops":                           {is(notWanted, going(noon.Add(time.Minute))), v1.PhaseStopping, reasonStopRequested, "asked"},
		"stops, and does not end":         {is(notWanted, going(noon.Add(-time.Hour))), v1.PhaseStopping, reasonNodeLost, "--force"},
		"its pod is deleted":              {is(going(noon.Add(time.Minute))), v1.PhaseStopping, reasonPodDeleted, "a new one"},
		"its pod is deleted and ended":    {is(going(noon.Add(time.Minute)), said(stateStopped, &v1.Outcome{Cause: "asked"})), v1.PhasePending, reasonWaitingForOldPod, "web-0"},
		"its pod does not go":             {is(going(noon.Add(-time.Hour))), v1.PhasePending, reasonNodeLost, "node n1"},
		"goes from a silent node":         {is(going(noon.Add(time.Hour)), conditions(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})), v1.PhasePending, reasonNodeLost, "out-of-service"},
		"the guest powers off":            {is(said(stateStopped, &v1.Outcome{Cause: causeGuest})), v1.PhaseStopping, reasonGuestShutdown, ""},
		"the guest reboots":               {is(said(stateStopped, &v1.Outcome{Cause: "guest reset"})), v1.PhaseStopping, reasonGuestEnded, "guest reset"},
		"crashes":                         {is(with(terminatedWith(137, killed)), failures(1, time.Second)), v1.PhaseFailed, reasonCrashed, "by signal 9; failed starts in a row: 1, next attempt at 2026-01-01T12:00:09Z"},
		"does not start":                  {is(with(terminatedWith(1, `{"cause":"start failed","message":"no bridge"}`)), failures(2, time.Second)), v1.PhaseFailed, reasonStartFailed, "no bridge; failed starts in a row: 2, next attempt at 2026-01-01T12:00:39Z"},
		"says nothing":                    {is(with(terminatedWith(1, "\x1b[31mterrible\x00")), said("", nil)), v1.PhaseFailed, reasonStartFailed, "[31mterrible"},
		"waits for the next attempt":      {is(noPod, said(stateStopped, &v1.Outcome{Cause: "crashed", ExitCode: 1, Message: "boom"}), failures(3, time.Minute)), v1.PhaseFailed, reasonCrashed, "boom; failed starts in a row: 3"},
		"ended by its manager, in a second container": {is(noPod, said(stateStopped, &v1.Outcome{Cause: "start failed", ExitCode: 1, Message: "signal terminated"}), failures(3, time.Minute), func(s *situation) {
			s.failures.Last = &v1.Outcome{Cause: "start failed", ExitCode: 1, Message: "no such bridge"}
		}), v1.PhaseFailed, reasonStartFailed, "no such bridge; failed starts in a row: 3"},
		"its node takes no notice":     {is(neglectedFor(noticeTime), failures(1, time.Second)), v1.PhaseFailed, reasonNodeMissing, "node n1 (spec.nodeName) takes no notice of pod web-0"},
		"its node may yet take notice": {is(neglectedFor(noticeTime - time.Second)), v1.PhaseStarting, reasonPodStarting, ""},
		"failed, and its pod goes":     {is(with(terminatedWith(137, killed)), failures(1, time.Second), going(noon.Add(time.Minute))), v1.PhaseFailed, reasonCrashed, "by signal 9"},
		"tries again":                  {is(noPod, said(stateStopped, &v1.Outcome{Cause: "crashed"}), failures(3, time.Hour)), v1.PhasePending, reasonPodMissing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := phaseOf(tt.s)
			require.Equal(t, []string{string(tt.phase), tt.reason}, []string{string(got.phase), got.reason})
			require.Contains(t, got.message, tt.message)
		})
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s    situation
		want bool
	}{
		"no pod":           {is(noPod), false},
		"runs":             {is(), false},
		"has no node":      {is(unscheduledFor("Unschedulable", "")), true},
		"is being deleted": {is(unscheduledFor("Unschedulable", ""), going(noon)), false},
		"no image":         {is(with(waitingFor("ImagePullBackOff", ""))), true},
		"is about to run":  {is(with(waitingFor("ContainerCreating", ""))), false},
		"has a node, only": {is(func(s *situation) { s.pod.Status.ContainerStatuses = nil }), false},
		"has ended":        {is(with(terminatedWith(1, ""))), false},
		"ended, and waits": {is(with(waitingFor("CrashLoopBackOff", "")), func(s *situation) {
			s.pod.Status.ContainerStatuses[0].LastTerminationState = terminatedWith(1, "").State
		}), false},
	} {
		require.Equal(t, tt.want, stuck(tt.s.pod), name)
	}
}

func TestExcerptIsLeftOut(t *testing.T) {
	t.Parallel()
	end := terminatedWith(1, `{"cause":"start failed","message":"1 fault:\nconfig.yaml:2:3: vm.x: wrong\n   2 |  x: |\n     |  ^\nas said"}`).State.Terminated
	require.Equal(t, "1 fault: config.yaml:2:3: vm.x: wrong as said", testament(end).Message)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	guest := &v1.Outcome{Cause: causeGuest}
	for name, tt := range map[string]struct {
		s    situation
		want decision
	}{
		"shall run":                         {is(noPodYet), decision{replicas: 1}},
		"runs":                              {is(), decision{replicas: 1}},
		"shall not run":                     {is(notWanted), decision{}},
		"may not start":                     {is(noPodYet, held(stalled{})), decision{}},
		"may not start, but runs":           {is(held(stalled{})), decision{replicas: 1}},
		"may not start, and its pod goes":   {is(held(stalled{}), going(noon)), decision{}},
		"a stray pod":                       {is(noPodYet, stray), decision{}},
		"a stray pod, but it runs":          {is(stray), decision{replicas: 1}},
		"the guest powers off":              {is(said(stateStopped, guest)), decision{replicas: 1, replace: causeGuest}},
		"the guest powers off and stays so": {is(said(stateStopped, guest), stopsWithGuest), decision{replicas: 1, stop: true}},
		"that has been carried out":         {is(said(stateStopped, guest), stopsWithGuest, carriedOut), decision{replicas: 1, replace: causeGuest}},
		"that is being carried out":         {is(said(stateStopped, guest), stopsWithGuest, carriedOut, notWanted), decision{}},
		"a reboot is no power-off":          {is(said(stateStopped, &v1.Outcome{Cause: "guest reset"}), stopsWithGuest), decision{replicas: 1, replace: "guest reset"}},
		"failed a moment ago":               {is(with(terminatedWith(1, "")), failures(1, time.Second)), decision{again: noon.Add(9 * time.Second)}},
		"failed some time ago":              {is(with(terminatedWith(1, "")), failures(1, time.Minute)), decision{replicas: 1, replace: causeUnknown}},
		"failed, and its pod is gone":       {is(noPod, failures(1, time.Second)), decision{again: noon.Add(9 * time.Second)}},
		"is tried again":                    {is(noPod, failures(1, 10*time.Second)), decision{replicas: 1}},
		"was restarted by the kubelet":      {is(failures(2, time.Second)), decision{replicas: 1, again: noon.Add(9 * time.Minute)}},
		"its node takes no notice":          {is(neglectedFor(noticeTime), failures(1, time.Second)), decision{again: noon.Add(9 * time.Second)}},
		"its node may yet take notice":      {is(neglectedFor(noticeTime - time.Second)), decision{replicas: 1}},
		"failed and may not start":          {is(with(terminatedWith(1, "")), failures(1, time.Minute), held(stalled{})), decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, decide(tt.s))
		})
	}
}

// A failure that nobody has seen, since the manager was away and the kubelet has
// started the container again, is told with its reason.
func TestUnseenFailure(t *testing.T) {
	t.Parallel()
	s := is()
	s.pod.Status.ContainerStatuses[0].LastTerminationState = terminatedWith(137, `{"cause":"crashed","message":"no more memory"}`).State
	v := &visit{situation: s}
	v.failures = countFailures(nil, v.pod, false, v.now)
	p := phaseOf(v.situation)
	require.Equal(t, v1.PhaseRunning, p.phase)
	v.vm.Status.Phase = v1.PhaseRunning
	all := v.happenings(p)
	require.Len(t, all, 1)
	require.Equal(t, []string{reasonCrashed, "no more memory", byRunner}, []string{all[0].reason, all[0].note, all[0].initiator})
}

func TestCountFailures(t *testing.T) {
	t.Parallel()
	fresh := is(with(terminatedWith(1, ""))).pod
	at := container(fresh).State.Terminated.FinishedAt
	restarted := is().pod
	restarted.Status.ContainerStatuses[0].LastTerminationState = container(fresh).State
	calmed := restarted.DeepCopy()
	calmed.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-calm))
	goes := fresh.DeepCopy()
	goes.DeletionTimestamp = &at
	asked := is(with(terminatedWith(143, `{"cause":"asked","exitCode":143}`))).pod
	timeless := fresh.DeepCopy() // a node that was lost doesn't know
	timeless.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Time{}
	last, seen := &v1.Outcome{Cause: causeUnknown, ExitCode: 1}, metav1.NewTime(noon)
	for name, tt := range map[string]struct {
		have    *v1.Failures
		pod     *corev1.Pod
		changed bool
		want    *v1.Failures
	}{
		"none":                          {nil, is().pod, false, nil},
		"no pod":                        {nil, nil, false, nil},
		"the first":                     {nil, fresh, false, &v1.Failures{Count: 1, LastTime: at, Noticed: &seen, Last: last}},
		"counted once":                  {&v1.Failures{Count: 1, LastTime: at}, fresh, false, &v1.Failures{Count: 1, LastTime: at}},
		"another":                       {&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(-time.Hour))}, fresh, false, &v1.Failures{Count: 2, LastTime: at, Noticed: &seen, Last: last}},
		"on a node whose clock is late": {&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(time.Hour))}, fresh, false, &v1.Failures{Count: 2, LastTime: at, Noticed: &seen, Last: last}},
		"kept without a pod":            {&v1.Failures{Count: 1, LastTime: at}, nil, false, &v1.Failures{Count: 1, LastTime: at}},
		"the definition has changed":    {&v1.Failures{Count: 5, LastTime: at}, nil, true, nil},
		"and the failed pod is there":   {&v1.Failures{Count: 5, LastTime: at, Last: last}, fresh, true, &v1.Failures{LastTime: at}},
		"restarted by the kubelet":      {nil, restarted, false, &v1.Failures{Count: 1, LastTime: at, Noticed: &seen, Last: last}},
		"runs for long enough":          {&v1.Failures{Count: 3, LastTime: at, Last: last}, calmed, false, &v1.Failures{LastTime: at}},
		"its pod is being deleted":      {nil, goes, false, nil},
		"its node is back":              {&v1.Failures{Count: 2, LastTime: at, Last: &v1.Outcome{Cause: causeStart, Reason: reasonNodeMissing}}, is().pod, false, nil},
		"its node is not":               {&v1.Failures{Count: 2, LastTime: at, Last: &v1.Outcome{Reason: reasonNodeMissing}}, nil, false, &v1.Failures{Count: 2, LastTime: at, Last: &v1.Outcome{Reason: reasonNodeMissing}}},
		"it fails on the node that is":  {&v1.Failures{Count: 2, LastTime: metav1.NewTime(noon.Add(-time.Hour)), Last: &v1.Outcome{Reason: reasonNodeMissing}}, restarted, false, &v1.Failures{Count: 3, LastTime: at, Noticed: &seen, Last: last}},
		"it was told to":                {nil, asked, false, nil},
		"nobody knows when":             {nil, timeless, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, countFailures(tt.have, tt.pod, tt.changed, noon))
		})
	}
	ahead := countFailures(nil, is(with(terminatedWith(1, "")), func(s *situation) {
		s.pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(noon.Add(2 * time.Hour))
	}).pod, false, noon)
	require.Equal(t, noon.Add(10*time.Second), nextAttempt(ahead, noon), "the clock of a node that is ahead holds nobody up")
	require.Equal(t, noon.Add(10*time.Second), nextAttempt(&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(-time.Hour)), Noticed: &seen}, noon), "and one that is late makes nobody hurry")
	require.Zero(t, nextAttempt(ahead, noon.Add(-time.Hour)), "the manager's clock was set back")
	for count, want := range map[int32]time.Duration{0: 0, 1: 10 * time.Second, 2: 40 * time.Second, 5: 250 * time.Second, 6: 300 * time.Second, 1 << 30: 300 * time.Second} {
		require.Equal(t, want, delay(count))
	}
}

// The API server keeps runners from the manager's conditions.
func TestPolicyKnowsTheManagersConditions(t *testing.T) {
	t.Parallel()
	policy, err := os.ReadFile(filepath.Join("..", "..", "deploy", "admission-policy.yaml"))
	require.NoError(t, err)
	for _, name := range managerConditions() {
		require.Equal(t, 2, strings.Count(string(policy), "'"+name+"'"), "%s, before the change and after it", name)
	}
}
