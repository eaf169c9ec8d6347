package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// A VM that keeps crashing is restarted at growing intervals of at most 300 seconds, and a long enough run resets the
// count.
func TestLongCrashLoop(t *testing.T) {
	t.Parallel()
	s := is()
	now := noon
	for i, want := range []time.Duration{10, 40, 90, 160, 250, 300, 300, 300, 300, 300, 300, 300} {
		s.Now = now
		with(terminatedWith(1, `{"cause":"crashed"}`))(&s)
		s.Pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now)
		s.Failures = CountFailures(s.VM.Status.Failures, s.Pod, false, now)
		require.Equal(t, int32(i+1), s.Failures.Count)
		s.VM.Status.Failures = s.Failures
		next := now.Add(want * time.Second)
		require.Equal(t, Decision{Again: next}, Decide(s))
		p := PhaseOf(s)
		require.Equal(t, v1.PhaseFailed, p.Phase)
		require.Contains(t, p.Message, fmt.Sprintf("consecutive failed starts: %d, next attempt at %s", i+1,
			next.Format(time.RFC3339)))
		s.Now = next.Add(-time.Second)
		require.Zero(t, Decide(s).Replicas)
		s.Now = next
		require.Equal(t, int32(1), Decide(s).Replicas)
		now = next.Add(5 * time.Second) // it runs for a moment
	}
	with(runningSince(now))(&s)
	s.Failures = CountFailures(s.VM.Status.Failures, s.Pod, false, now.Add(stableTime-time.Second))
	require.Equal(t, int32(12), s.Failures.Count)
	require.Nil(t, CountFailures(s.VM.Status.Failures, s.Pod, false, now.Add(stableTime)))
}

// A pod created just before an obstacle appeared isn't started, and is replaced.
func TestGatedPod(t *testing.T) {
	t.Parallel()
	s := Situation{Snapshot: &Snapshot{VM: &v1.VirtualMachine{}, Pod: &corev1.Pod{}}}
	s.VM.Spec.VM.State = v1.Running
	s.Pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonSchedulingGated,
	}}
	s.Obstacle = Stalled{ReasonNotTrusted, ""}
	require.Equal(t, Decision{}, Decide(s))
	s.Obstacle = nil
	require.Equal(t, Decision{Replicas: 1}, Decide(s), "and is replaced, for it is outdated")
	require.True(t, Stuck(s.Pod))
}

func TestSettled(t *testing.T) {
	t.Parallel()
	told := func(s *Situation) { s.VM.Status.Phase = v1.PhaseRunning }
	for name, tt := range map[string]struct {
		s    Situation
		want bool
	}{
		"runs":                   {is(told), true},
		"is stopped":             {is(told, noPod, notWanted), true},
		"is new":                 {is(), false},
		"was edited":             {is(told, func(s *Situation) { s.VM.Generation++ }), false},
		"is to start":            {is(told, noPod), false},
		"is to stop":             {is(told, notWanted), false},
		"its pod is deleted":     {is(told, going(noon)), false},
		"its container is ended": {is(told, with(terminatedWith(1, ""))), false},
	} {
		require.Equal(t, tt.want, tt.s.Settled(), name)
	}
}

// The message about an unschedulable pod names the responsible fields of the VM, which the scheduler doesn't know.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.NodeSelector = map[string]string{"disk": "ssd", "arch": "new"}
	vm.Spec.Affinity = &v1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	vm.Spec.VM.Accelerator = "tcg"
	s := &Snapshot{VM: vm, Settings: objects.DefaultSettings()}
	for said, want := range map[string]string{
		"0/1 nodes are available: 1 Insufficient memory.": "the pod requests cpu 500m, memory ",

		"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.":        "spec.nodeSelector requires the labels arch=new, disk=ssd; spec.affinity.nodeAffinity restricts the nodes",
		"0/2 nodes are available: 2 node(s) didn't match pod affinity rules.":                  "spec.affinity.virtualMachineAndPodAffinity or podAffinity requires",
		"0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.":             "spec.affinity.virtualMachineAndPodAntiAffinity or podAntiAffinity refuses",
		"0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.": "a VM or pod that runs there has an anti-affinity",
		"0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.":     "spec.topologySpreadConstraints limits",
		"0/1 nodes are available: 1 node(s) had untolerated taint(s).":                         "spec.tolerations lists",
		"0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.":    "a volume of the VM is available on certain nodes only",
	} {
		require.Contains(t, Unplaced(s, said), want)
	}
	require.Empty(t, Unplaced(s, "0/1 nodes are available: 1 node(s) were unschedulable."))

	vm.Spec.NodeSelector = map[string]string{}
	require.NotContains(t, Unplaced(s, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
		"nodeSelector", "an empty one requires nothing")
	vm.Status.Architecture = "arm64"
	require.Contains(t, Unplaced(s, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
		"; a guest for arm64 needs nodes with kubernetes.io/arch=arm64 (docs/tasks/placement.md)")
}

// The end of a machine leads to the results in the table "Run policies" of docs/reference/virtual-machines.md.
func TestRunPolicies(t *testing.T) {
	t.Parallel()
	end := func(cause string, code int32) func(*Situation) {
		return said(stateStopped, &v1.Outcome{Cause: cause, ExitCode: code})
	}
	killed := terminatedWith(137, "")
	restarted := runningSince(noon.Add(-time.Second)) // by the kubelet, even after its runner was killed
	restarted.LastTerminationState.Terminated = killed.State.Terminated
	stops, again, replace := Decision{Replicas: 1, Stop: true}, Decision{Replicas: 1}, "another pod"
	stopped := []v1.RunPolicy{v1.AlwaysOnUnlessStoppedManually, v1.Manual}
	for what, row := range map[string]struct {
		how    func(*Situation)
		stop   []v1.RunPolicy // run policies that keep the VM off
		others any            // result for the other policies: a pod with this decision, or another pod
	}{
		"the guest runs":       {func(*Situation) {}, nil, again},
		"the guest shuts down": {end(causeGuest, 0), stopped, replace},
		"the guest is reset":   {end("guest reset", 0), nil, replace},
		"the guest panics":     {end(causePanic, 1), []v1.RunPolicy{v1.Manual}, again},
		"QEMU is killed":       {end("killed", 137), []v1.RunPolicy{v1.Manual}, again},
		"all are killed":       {with(killed), []v1.RunPolicy{v1.Manual}, replace},
		"and started again":    {with(restarted), []v1.RunPolicy{v1.Manual}, again},
		"a start fails":        {with(terminatedWith(1, `{"cause":"start failed"}`)), nil, replace},
		"the pod is deleted":   {going(noon.Add(time.Minute)), nil, Decision{Replicas: 1}},
		"the node has failed": {with(corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown",
				FinishedAt: metav1.NewTime(noon),
			},
		}}), nil, replace},
	} {
		for _, policy := range []v1.RunPolicy{v1.AlwaysOn, v1.AlwaysOnUnlessStoppedManually, v1.Manual} {
			s := is(row.how)
			s.VM.Spec.RunPolicy = policy
			d := Decide(s)
			switch {
			case slices.Contains(row.stop, policy):
				require.Equal(t, stops, d, "%s: %s", what, policy)
				carriedOut(&s)
				d = Decide(s)
				require.False(t, d.Stop, "%s: %s: once", what, policy)
				require.True(t, d.Replace != "" || isContainerRunning(s.Pod) && OutcomeIn(s.VM, s.Pod) == nil,
					"%s: %s: it may run again", what, policy)
			case row.others == replace:
				require.NotEmpty(t, d.Replace, "%s: %s", what, policy)
			default:
				require.Equal(t, row.others, d, "%s: %s", what, policy)
			}
		}
		s := is(row.how)
		s.VM.Spec.RunPolicy, s.VM.Spec.VM.State = v1.AlwaysOff, ""
		require.Equal(t, Decision{}, Decide(s), what)
	}
}

// A VM waits for its Secrets, and restarts after a failure if a missing Secret has been written since.
func TestData(t *testing.T) {
	t.Parallel()
	at := func(second int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(second) * time.Second)) }
	s := &Snapshot{VM: machine("web"), Data: []*objects.Metadata{nil}}
	s.VM.Spec.Provisioning = &v1.Provisioning{UserDataRef: &v1.SecretRef{Name: "script"}}
	require.Equal(t, Waiting{Reason: ReasonSecretMissing, Message: "there is no spec.provisioning.userDataRef: " +
		"Secret script of the type provisioning.virtualization.deckhouse.io/cloud-init with the key userData; " +
		"the VM starts when it is created (the " +
		"type of a Secret can't be changed: one of another type has to be deleted first)"}, Data(s).Obstacle)
	require.False(t, DataChanged(s))
	s.VM.Status.Failures = &v1.Failures{LastTime: at(5), Last: &v1.Outcome{Reason: string(vmstatus.ReasonDataMissing)}}
	require.False(t, DataChanged(s), "there is none yet")
	for second, changed := range map[int]bool{4: false, 5: true, 6: true} {
		s.Data[0] = objects.NewMetadata(objects.KindSecret)
		s.Data[0].CreationTimestamp = at(second)
		require.Zero(t, Data(s))
		require.Equal(t, changed, DataChanged(s), second)
	}
	s.VM.Status.Failures.Last.Reason = "ConfigInvalid"
	require.False(t, DataChanged(s))

	text := &runtime.RawExtension{Raw: []byte("{}")}
	s.Data = append(s.Data, s.Data[0])
	s.VM.Spec.CloudInit = &v1.CloudInit{UserData: text, UserDataFrom: &v1.DataSource{}}
	require.Equal(t, Stalled{
		ReasonRefused, "spec.cloudInit.userDataFrom: userData is given as well: leave one of the two out",
	}, Data(s).Obstacle)
}
