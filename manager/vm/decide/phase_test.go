package decide

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// is returns the Situation of a VM in the state Running with a running pod, after the given changes.
func is(changes ...func(*Situation)) Situation {
	s := Situation{Snapshot: &Snapshot{VM: machine("web"), Now: noon}}
	s.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "1"}}
	s.Pod.Spec.NodeName = "n1"
	with(runningSince(noon.Add(-time.Minute)))(&s)
	said(stateBooted, nil)(&s)
	for _, change := range changes {
		change(&s)
	}
	return s
}

func machine(name string) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"}}
	vm.Spec.VM.State = v1.Running
	return vm
}

func runningSince(at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at)},
	}}
}

// limitedTo gives a VM a memory limit.
func limitedTo(memory string) func(*Situation) {
	return func(s *Situation) {
		s.VM.Spec.VM.MaximumCPUs = new(int32(1))
		limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		s.VM.Spec.Resources = &v1.Resources{Limits: limits}
	}
}

func waitingFor(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}
}

func with(status corev1.ContainerStatus) func(*Situation) {
	status.Name, status.Ready = objects.ContainerName, status.State.Running != nil
	return func(s *Situation) { s.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{status} }
}

func said(state string, outcome *v1.Outcome) func(*Situation) {
	return func(s *Situation) {
		s.VM.Status.Runner = &v1.RunnerStatus{PodName: "web-0", PodUID: "1", State: state, Outcome: outcome}
	}
}

func conditions(c ...corev1.PodCondition) func(*Situation) {
	return func(s *Situation) { s.Pod.Status.Conditions = c }
}

func unscheduledFor(reason, message string) func(*Situation) {
	return func(s *Situation) {
		noPodYet(s)
		s.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "1"}}
		conditions(corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason,
			Message: message,
		})(s)
	}
}

func noPodYet(s *Situation)       { s.Pod, s.VM.Status.Runner = nil, nil }
func noPod(s *Situation)          { s.Pod = nil }
func notWanted(s *Situation)      { s.VM.Spec.VM.State = v1.Stopped }
func unset(s *Situation)          { s.VM.Spec.VM.State = "" }
func deleted(s *Situation)        { s.VM.DeletionTimestamp = &metav1.Time{Time: noon} }
func stopsWithGuest(s *Situation) { s.VM.Spec.GuestShutdownStops = true }
func carriedOut(s *Situation)     { s.VM.Annotations = map[string]string{AnnotationCarriedOut: "1"} }

func panicked(s *Situation) {
	said(stateStopped, &v1.Outcome{Cause: causePanic, ExitCode: 1, Message: "it panicked"})(s)
}

func policy(p v1.RunPolicy) func(*Situation) {
	return func(s *Situation) { s.VM.Spec.RunPolicy = p }
}

func going(until time.Time) func(*Situation) {
	return func(s *Situation) { s.Pod.DeletionTimestamp = &metav1.Time{Time: until} }
}

// shortened changes the grace period of a pod that is being deleted from 935 seconds to 1.
func shortened(s *Situation) {
	s.Pod.DeletionGracePeriodSeconds, s.Pod.Spec.TerminationGracePeriodSeconds = new(int64(1)), new(int64(935))
}

func held(o Obstacle) func(*Situation) { return func(s *Situation) { s.Obstacle = o } }

func stray(s *Situation) { s.Strays = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}} }

func failures(count int32, ago time.Duration) func(*Situation) {
	return func(s *Situation) {
		s.Failures = &v1.Failures{Count: count, LastTime: metav1.NewTime(noon.Add(-ago))}
		s.VM.Status.Failures = s.Failures
	}
}

// neglectedFor gives the VM a pod of this age on the node that it names, and which hasn't reported about the pod.
func neglectedFor(age time.Duration) func(*Situation) {
	return func(s *Situation) {
		noPodYet(s)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", UID: "1",
			CreationTimestamp: metav1.NewTime(noon.Add(-age)),
		}}
		pod.Annotations = map[string]string{objects.AnnotationDefinition: `{"nodeName":"n1"}`}
		pod.Spec.NodeName = "n1"
		s.Pod = WithoutNode(pod, s.Now)
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
		s       Situation
		phase   v1.Phase
		reason  string
		message string
	}{
		"deleted": {is(deleted), v1.PhaseTerminating, ReasonDeleted, "deleted"},
		"stopped": {
			is(noPod, notWanted), v1.PhaseStopped, ReasonStopped,
			"spec.vm.state is Stopped",
		},
		"never started": {
			is(noPodYet, unset), v1.PhaseStopped, ReasonStopped,
			"spec.vm.state is not set, which means Stopped",
		},
		"never started by hand": {
			is(noPodYet, unset, policy(v1.Manual)), v1.PhaseStopped, ReasonStopped,
			"spec.runPolicy is Manual, and the VM has not been started",
		},
		"always off": {is(noPod, policy(v1.AlwaysOff)), v1.PhaseStopped, ReasonStopped, "spec.runPolicy is AlwaysOff"},
		"stopped by its guest": {
			is(noPod, notWanted, carriedOut, said(stateStopped, &v1.Outcome{Cause: causeGuest})), v1.PhaseStopped,
			ReasonGuestShutdown, "the guest has shut down",
		},
		"stopped by a crash": {
			is(noPod, notWanted, carriedOut, panicked), v1.PhaseStopped, ReasonCrashed, "it panicked",
		},
		"has crashed for good": {
			is(policy(v1.Manual), panicked), v1.PhaseStopping, ReasonCrashed, "it panicked",
		},
		"stopped, and its type is wrong": {
			is(noPod, notWanted, held(Stalled{"X", "x"})), v1.PhaseStopped,
			ReasonStopped, "",
		},
		"is to start": {
			is(noPodYet), v1.PhasePending, ReasonPodMissing,
			"kubectl describe statefulset web",
		},
		"something is wrong": {
			is(noPodYet, held(Stalled{"Wrong", "field x"})), v1.PhaseFailed, "Wrong",
			"field x",
		},
		"something is awaited": {
			is(noPodYet, held(Waiting{Reason: "Soon", Message: "y"})), v1.PhasePending,
			"Soon", "y",
		},
		"something is wrong, but it runs": {is(held(Stalled{"Wrong", ""})), v1.PhaseRunning, "", ""},
		"a stray pod": {
			is(noPodYet, stray), v1.PhasePending, reasonWaitingForOldPod,
			"pod web has",
		},
		"a stray pod, and is to be off": {
			is(noPodYet, notWanted, stray), v1.PhaseStopping, reasonWaitingForOldPod,
			"spec.vm.state is Stopped; pod web has",
		},
		"looks for a node": {is(unscheduledFor("", "")), v1.PhasePending, ReasonUnschedulable, ""},
		"finds none": {
			is(unscheduledFor("Unschedulable",
				"0/3 nodes are available: 3 Insufficient memory.")), v1.PhasePending, ReasonUnschedulable,
			"Insufficient memory",
		},
		"a claim is missing": {
			is(unscheduledFor("Unschedulable",
				`0/3 nodes are available: persistentvolumeclaim "vmop-image-repository" not found.`)), v1.PhasePending,
			ReasonMissingClaim, "vmop-image-repository",
		},
		"a claim is not bound": {is(unscheduledFor("Unschedulable",
			"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")), v1.PhasePending, ReasonClaimPending, ""},
		"gated": {
			is(unscheduledFor("SchedulingGated", "Scheduling is blocked")),
			v1.PhasePending, "SchedulingGated", "",
		},
		"its pod starts": {
			is(with(waitingFor("ContainerCreating", "")), said("", nil)), v1.PhaseStarting,
			ReasonPodStarting, "",
		},
		"no image": {
			is(with(waitingFor("ErrImagePull", "not found"))), v1.PhasePending,
			ReasonImagePull, "ErrImagePull: not found",
		},
		"a wrong image": {
			is(with(waitingFor("InvalidImageName", "x"))), v1.PhasePending,
			ReasonImagePull, "x",
		},
		"no container": {
			is(with(waitingFor("CreateContainerError", "x"))), v1.PhasePending,
			reasonContainer, "CreateContainerError: x",
		},
		"a former pod's word": {is(said(stateBooted, nil), func(s *Situation) {
			s.VM.Status.Runner.PodUID = "0"
		}), v1.PhaseStarting, ReasonPodStarting, ""},
		"the runner starts":  {is(said("Initializing", nil)), v1.PhaseStarting, ReasonPodStarting, ""},
		"boots":              {is(said(stateBooting, nil)), v1.PhaseRunning, "", ""},
		"has no agent":       {is(said(stateRunning, nil)), v1.PhaseRunning, "NoGuestAgent", ""},
		"runs":               {is(), v1.PhaseRunning, "", ""},
		"the runner ends it": {is(said(stateTerminating, nil)), v1.PhaseStopping, reasonGuestEnded, ""},
		"the node is silent": {is(conditions(corev1.PodCondition{
			Type:   corev1.PodReady,
			Status: corev1.ConditionFalse,
		})), v1.PhaseRunning, reasonNodeLost, "node n1"},
		"the pod is evicted": {is(with(corev1.ContainerStatus{}), said("", nil), func(s *Situation) {
			s.Pod.Status.Phase, s.Pod.Status.Reason = corev1.PodFailed, "Evicted"
		}), v1.PhasePending, "Evicted", ""},
		"is to stop": {is(notWanted), v1.PhaseStopping, ReasonStopRequested, ""},
		"stops": {
			is(notWanted, going(noon.Add(time.Minute))), v1.PhaseStopping,
			ReasonStopRequested, "asked",
		},
		"stops, and does not end": {
			is(notWanted, going(noon.Add(-time.Hour))), v1.PhaseStopping, reasonNodeLost,
			"--force",
		},
		"its pod is deleted, then with a shorter grace period": {
			is(going(noon.Add(-time.Minute)), shortened), v1.PhaseStopping, reasonPodDeleted,
			"until 2026-01-01T12:14:34Z at the latest: a kubelet keeps the grace period that applied when the deletion of the " +
				"pod began; to end the guest now: kubectl exec web-0 -- vmrunner stop --force",
		},
		"it stops, then its pod is deleted with a shorter grace period": {
			is(notWanted, going(noon.Add(-time.Minute)), shortened), v1.PhaseStopping, ReasonStopRequested, "--force",
		},
		"a shorter grace period, and the first is over": {
			is(going(noon.Add(-time.Hour)), shortened), v1.PhasePending, reasonNodeLost, "node n1",
		},
		"its pod is deleted": {
			is(going(noon.Add(time.Minute))), v1.PhaseStopping, reasonPodDeleted,
			"a new pod",
		},
		"its pod is deleted and ended": {is(going(noon.Add(time.Minute)),
			said(stateStopped, &v1.Outcome{Cause: "asked"})), v1.PhasePending, reasonWaitingForOldPod, "web-0"},
		"its pod does not go": {is(going(noon.Add(-time.Hour))), v1.PhasePending, reasonNodeLost, "node n1"},
		"goes from a silent node": {
			is(going(noon.Add(time.Hour)),
				conditions(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})), v1.PhasePending,
			reasonNodeLost, "out-of-service",
		},
		"the guest powers off": {
			is(said(stateStopped, &v1.Outcome{Cause: causeGuest})), v1.PhaseStopping,
			ReasonGuestShutdown, "",
		},
		"the guest reboots": {
			is(said(stateStopped, &v1.Outcome{Cause: "guest reset"})), v1.PhaseStopping,
			reasonGuestEnded, "guest reset",
		},
		"crashes": {
			is(with(terminatedWith(137, killed)), failures(1, time.Second)), v1.PhaseFailed,
			ReasonCrashed, "by signal 9; consecutive failed starts: 1, next attempt at 2026-01-01T12:00:09Z",
		},
		"does not start": {
			is(with(terminatedWith(1, `{"cause":"start failed","message":"no bridge"}`)),
				failures(2, time.Second)), v1.PhaseFailed, reasonStartFailed,
			"no bridge; consecutive failed starts: 2, next attempt at 2026-01-01T12:00:39Z",
		},
		"says nothing": {
			is(with(terminatedWith(1, "\x1b[31mterrible\x00")), said("", nil)),
			v1.PhaseFailed, reasonStartFailed, "[31mterrible",
		},
		"waits for the next attempt": {
			is(noPod,
				said(stateStopped, &v1.Outcome{Cause: "crashed", ExitCode: 1, Message: "boom"}),
				failures(3, time.Minute)),
			v1.PhaseFailed, ReasonCrashed, "boom; consecutive failed starts: 3",
		},
		"ended by its manager, in a second container": {is(noPod, said(stateStopped, &v1.Outcome{
			Cause:    "start failed",
			ExitCode: 1, Message: "signal terminated",
		}), failures(3, time.Minute), func(s *Situation) {
			s.Failures.Last = &v1.Outcome{Cause: "start failed", ExitCode: 1, Message: "no such bridge"}
		}), v1.PhaseFailed, reasonStartFailed, "no such bridge; consecutive failed starts: 3"},
		"its node takes no notice": {
			is(neglectedFor(acknowledgeTime), failures(1, time.Second)), v1.PhaseFailed,
			reasonNodeMissing, "node n1 (spec.nodeName) has not acknowledged pod web-0",
		},
		"its node may yet take notice": {
			is(neglectedFor(acknowledgeTime - time.Second)), v1.PhaseStarting,
			ReasonPodStarting, "node n1 (spec.nodeName) has not acknowledged the pod yet; a node that does not exist never does (kubectl get node n1)",
		},
		"killed at a limit on memory": {
			is(limitedTo("20Mi"),
				with(terminatedWith(137, `{"cause":"killed","message":"killed, QEMU: killed by signal 9 (SIGKILL)"}`)),
				failures(1, time.Second)), v1.PhaseFailed, ReasonCrashed,
			"(SIGKILL); spec.resources.limits.memory: it is 20Mi, but the VM may need",
		},
		"its container was killed at a limit": {
			is(limitedTo("20Mi"), said("", nil), with(corev1.ContainerStatus{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
			}}), failures(1, time.Second)), v1.PhaseFailed, reasonStartFailed,
			"OOMKilled; spec.resources.limits.memory: it is 20Mi",
		},
		"failed, and its pod goes": {is(with(terminatedWith(137, killed)), failures(1, time.Second),
			going(noon.Add(time.Minute))), v1.PhaseFailed, ReasonCrashed, "by signal 9"},
		"tries again": {
			is(noPod, said(stateStopped, &v1.Outcome{Cause: "crashed"}), failures(3, time.Hour)),
			v1.PhasePending, ReasonPodMissing, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := PhaseOf(tt.s)
			require.Equal(t, []string{string(tt.phase), tt.reason}, []string{string(got.Phase), got.Reason})
			require.Contains(t, got.Message, tt.message)
		})
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s    Situation
		want bool
	}{
		"no pod":           {is(noPod), false},
		"runs":             {is(), false},
		"has no node":      {is(unscheduledFor("Unschedulable", "")), true},
		"is being deleted": {is(unscheduledFor("Unschedulable", ""), going(noon)), false},
		"no image":         {is(with(waitingFor("ImagePullBackOff", ""))), true},
		"is about to run":  {is(with(waitingFor("ContainerCreating", ""))), false},
		"has a node, only": {is(func(s *Situation) { s.Pod.Status.ContainerStatuses = nil }), false},
		"has ended":        {is(with(terminatedWith(1, ""))), false},
		"ended, and waits": {is(with(waitingFor("CrashLoopBackOff", "")), func(s *Situation) {
			s.Pod.Status.ContainerStatuses[0].LastTerminationState = terminatedWith(1, "").State
		}), false},
	} {
		require.Equal(t, tt.want, Stuck(tt.s.Pod), name)
	}
}

func TestExcerptIsLeftOut(t *testing.T) {
	t.Parallel()
	end := terminatedWith(1, `{"cause":"start failed","message":"1 fault:\nconfig.yaml:2:3: vm.x: wrong\n   2 |  x: |\n     |  ^\nas said"}`).State.Terminated
	require.Equal(t, "1 fault: config.yaml:2:3: vm.x: wrong as said", terminationOutcome(end).Message)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	guest := &v1.Outcome{Cause: causeGuest}
	for name, tt := range map[string]struct {
		s    Situation
		want Decision
	}{
		"is to run":                       {is(noPodYet), Decision{Replicas: 1}},
		"runs":                            {is(), Decision{Replicas: 1}},
		"is not to run":                   {is(notWanted), Decision{}},
		"may not start":                   {is(noPodYet, held(Stalled{})), Decision{}},
		"may not start, but runs":         {is(held(Stalled{})), Decision{Replicas: 1}},
		"may not start, and its pod goes": {is(held(Stalled{}), going(noon)), Decision{}},
		"a stray pod":                     {is(noPodYet, stray), Decision{}},
		"a stray pod, but it runs":        {is(stray), Decision{Replicas: 1}},
		"the guest powers off": {
			is(said(stateStopped, guest)),
			Decision{Replicas: 1, Replace: causeGuest},
		},
		"the guest powers off and stays so": {
			is(said(stateStopped, guest), stopsWithGuest),
			Decision{Replicas: 1, Stop: true},
		},
		"that has been carried out": {
			is(said(stateStopped, guest), stopsWithGuest, carriedOut),
			Decision{Replicas: 1, Replace: causeGuest},
		},
		"that is being carried out": {
			is(said(stateStopped, guest), stopsWithGuest, carriedOut, notWanted),
			Decision{},
		},
		"a reboot is no power-off": {
			is(said(stateStopped, &v1.Outcome{Cause: "guest reset"}), stopsWithGuest),
			Decision{Replicas: 1, Replace: "guest reset"},
		},
		"failed a moment ago": {
			is(with(terminatedWith(1, "")), failures(1, time.Second)),
			Decision{Again: noon.Add(9 * time.Second)},
		},
		"failed some time ago": {
			is(with(terminatedWith(1, "")), failures(1, time.Minute)),
			Decision{Replicas: 1, Replace: causeUnknown},
		},
		"failed, and its pod is gone": {
			is(noPod, failures(1, time.Second)),
			Decision{Again: noon.Add(9 * time.Second)},
		},
		"has reported a failure, which its container is yet to show": {
			is(said(stateStopped, &v1.Outcome{Cause: "crashed", ExitCode: 1})), Decision{Replicas: 1},
		},
		"has reported another one": {
			is(said(stateStopped, &v1.Outcome{Cause: "crashed", ExitCode: 1}), failures(1, time.Second)),
			Decision{Replicas: 1},
		},
		"is tried again": {is(noPod, failures(1, 10*time.Second)), Decision{Replicas: 1}},
		"was restarted by the kubelet": {
			is(failures(2, time.Second)),
			Decision{Replicas: 1, Again: noon.Add(9 * time.Minute)},
		},
		"its node takes no notice": {
			is(neglectedFor(acknowledgeTime), failures(1, time.Second)),
			Decision{Again: noon.Add(9 * time.Second)},
		},
		"its node may yet take notice": {is(neglectedFor(acknowledgeTime - time.Second)), Decision{Replicas: 1}},
		"failed and may not start": {
			is(with(terminatedWith(1, "")), failures(1, time.Minute), held(Stalled{})),
			Decision{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Decide(tt.s))
		})
	}
}

// A failure while the manager was down has an event with its reason, even after the kubelet has restarted the
// container.
func TestUnnoticedFailure(t *testing.T) {
	t.Parallel()
	s := is()
	s.Pod.Status.ContainerStatuses[0].LastTerminationState = terminatedWith(137,
		`{"cause":"crashed","message":"no more memory"}`).State
	s.Failures = CountFailures(nil, s.Pod, false, s.Now)
	p := PhaseOf(s)
	require.Equal(t, v1.PhaseRunning, p.Phase)
	s.VM.Status.Phase = v1.PhaseRunning
	all := Events(s, Findings{}, p)
	require.Len(t, all, 1)
	require.Equal(t, []string{ReasonCrashed, "no more memory", byRunner},
		[]string{all[0].Reason, all[0].Note, all[0].Initiator})
}

func TestCountFailures(t *testing.T) {
	t.Parallel()
	fresh := is(with(terminatedWith(1, ""))).Pod
	at := runnerContainer(fresh).State.Terminated.FinishedAt
	restarted := is().Pod
	restarted.Status.ContainerStatuses[0].LastTerminationState = runnerContainer(fresh).State
	calmed := restarted.DeepCopy()
	calmed.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(noon.Add(-stableTime))
	goes := fresh.DeepCopy()
	goes.DeletionTimestamp = &at
	asked := is(with(terminatedWith(143, `{"cause":"asked","exitCode":143}`))).Pod
	timeless := fresh.DeepCopy() // a lost node doesn't know the times
	timeless.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.Time{}
	last, seen := &v1.Outcome{Cause: causeUnknown, ExitCode: 1}, metav1.NewTime(noon)
	for name, tt := range map[string]struct {
		have    *v1.Failures
		pod     *corev1.Pod
		changed bool
		want    *v1.Failures
	}{
		"none":   {nil, is().Pod, false, nil},
		"no pod": {nil, nil, false, nil},
		"the first": {nil, fresh, false, &v1.Failures{
			Count: 1, LastTime: at, Noticed: &seen,
			Last: last,
		}},
		"counted once": {
			&v1.Failures{Count: 1, LastTime: at}, fresh, false,
			&v1.Failures{Count: 1, LastTime: at},
		},
		"another": {
			&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(-time.Hour))}, fresh,
			false, &v1.Failures{Count: 2, LastTime: at, Noticed: &seen, Last: last},
		},
		"on a node with a late clock": {
			&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(time.Hour))}, fresh,
			false, &v1.Failures{Count: 2, LastTime: at, Noticed: &seen, Last: last},
		},
		"kept without a pod": {
			&v1.Failures{Count: 1, LastTime: at}, nil, false,
			&v1.Failures{Count: 1, LastTime: at},
		},
		"the definition has changed": {&v1.Failures{Count: 5, LastTime: at}, nil, true, nil},
		"and the failed pod is there": {
			&v1.Failures{Count: 5, LastTime: at, Last: last}, fresh, true,
			&v1.Failures{LastTime: at},
		},
		"restarted by the kubelet": {nil, restarted, false, &v1.Failures{
			Count: 1, LastTime: at, Noticed: &seen,
			Last: last,
		}},
		"runs for long enough": {
			&v1.Failures{Count: 3, LastTime: at, Last: last}, calmed, false,
			&v1.Failures{LastTime: at},
		},
		"its pod is being deleted": {nil, goes, false, nil},
		"its node is back": {&v1.Failures{
			Count: 2, LastTime: at,
			Last: &v1.Outcome{Cause: causeStart, Reason: reasonNodeMissing},
		}, is().Pod, false, nil},
		"its node is not": {
			&v1.Failures{
				Count: 2, LastTime: at,
				Last: &v1.Outcome{Reason: reasonNodeMissing},
			}, nil, false,
			&v1.Failures{Count: 2, LastTime: at, Last: &v1.Outcome{Reason: reasonNodeMissing}},
		},
		"it fails on the node that is": {
			&v1.Failures{
				Count: 2, LastTime: metav1.NewTime(noon.Add(-time.Hour)),
				Last: &v1.Outcome{Reason: reasonNodeMissing},
			}, restarted, false,
			&v1.Failures{Count: 3, LastTime: at, Noticed: &seen, Last: last},
		},
		"by request":     {nil, asked, false, nil},
		"without a time": {nil, timeless, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, CountFailures(tt.have, tt.pod, tt.changed, noon))
		})
	}
	ahead := CountFailures(nil, is(with(terminatedWith(1, "")), func(s *Situation) {
		s.Pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(noon.Add(2 * time.Hour))
	}).Pod, false, noon)
	require.Equal(t, noon.Add(10*time.Second), nextAttempt(ahead, noon),
		"the clock of a node that is ahead delays no attempt")
	require.Equal(t, noon.Add(10*time.Second),
		nextAttempt(&v1.Failures{Count: 1, LastTime: metav1.NewTime(noon.Add(-time.Hour)), Noticed: &seen}, noon),
		"and one that is late hastens none")
	require.Zero(t, nextAttempt(ahead, noon.Add(-time.Hour)), "the manager's clock was set back")
	for count, want := range map[int32]time.Duration{
		0: 0, 1: 10 * time.Second, 2: 40 * time.Second,
		5: 250 * time.Second, 6: 300 * time.Second, 1 << 30: 300 * time.Second,
	} {
		require.Equal(t, want, restartDelay(count))
	}
}

// The admission policy keeps runners from writing the manager's conditions.
func TestPolicyKnowsTheManagersConditions(t *testing.T) {
	t.Parallel()
	policy, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "admission-policy.yaml"))
	require.NoError(t, err)
	for _, name := range v1.ManagerConditions() {
		require.Equal(t, 2, strings.Count(string(policy), "'"+name+"'"), "%s, before the change and after it", name)
	}
}
