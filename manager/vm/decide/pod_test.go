package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// A container that left no outcome is described by its reason, unless the reason is meaningless.
func TestOutcomeOfAContainer(t *testing.T) {
	t.Parallel()
	require.Nil(t, terminationOutcome(nil))
	for _, tt := range []struct{ reason, message, want string }{
		{"Error", " it failed\n", "it failed"},
		{"Completed", "", ""},
		{"", "said", "said"},
		{"OOMKilled", "", "OOMKilled"},
		{"StartError", "no such file", "StartError no such file"},
	} {
		end := &corev1.ContainerStateTerminated{ExitCode: 3, Reason: tt.reason, Message: tt.message}
		require.Equal(t, &v1.Outcome{Cause: causeUnknown, ExitCode: 3, Message: tt.want}, terminationOutcome(end),
			tt.reason)
	}
	left := &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: `{"cause":"a\nb","exitCode":1}`}
	require.Equal(t, 3, int(terminationOutcome(left).ExitCode), "as the kubelet saw it")
	left.Message = `{"cause":"","message":"text"}`
	require.Equal(t, causeUnknown, terminationOutcome(left).Cause)
}

// The manager reports the end of a machine if its runner can't.
func TestFinalStatus(t *testing.T) {
	t.Parallel()
	over := terminatedWith(1, `{"cause":"killed","message":"by signal 9"}`)
	untimed := terminatedWith(1, "")
	untimed.State.Terminated.FinishedAt = metav1.Time{}
	another := func(s *Situation) { s.VM.Status.Runner.PodUID = "0" }
	none := func(s *Situation) { s.VM.Status.Runner = nil }
	told := said(stateStopped, &v1.Outcome{Cause: "killed"})
	for what, tt := range map[string]struct {
		s       Situation
		needed  bool
		message string
	}{
		"runs":                     {is(), false, ""},
		"its pod is gone":          {is(noPod), true, "the pod is gone"},
		"its pod is gone, as told": {is(noPod, told), false, ""},
		"never had a pod":          {is(noPodYet), false, ""},
		"is late":                  {is(going(noon.Add(-time.Minute))), true, silenceMessage(is().Pod)},
		"is late, as told":         {is(going(noon.Add(-time.Minute)), told), false, ""},
		"has a moment":             {is(going(noon.Add(-time.Second))), false, ""},
		"has ended":                {is(with(over)), true, "by signal 9"},
		"has ended, as told":       {is(with(over), told), false, ""},
		"has ended before it told": {is(with(over), none), true, "by signal 9"},
		"another had told its end": {is(with(over), told, another), true, "by signal 9"},
		"has reported no outcome":  {is(with(over), said(stateStopped, nil)), true, "by signal 9"},
		"has ended, unknown when":  {is(with(untimed)), false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.needed, tt.s.NeedsFinalStatus(tt.s.Pod))
			if tt.needed {
				require.Equal(t, tt.message, tt.s.FinalStatus(tt.s.Pod).Runner.Message)
			}
		})
	}
}

// The machine's conditions end with the machine, with the time of the change, and no conditions are added.
func TestConditionsOfTheFinalStatus(t *testing.T) {
	t.Parallel()
	before, names := metav1.NewTime(noon.Add(-time.Hour)), v1.MachineConditions()
	s := is(with(terminatedWith(137, "")), func(s *Situation) {
		s.VM.Status.Conditions = []metav1.Condition{
			{Type: names[0], Status: metav1.ConditionTrue, LastTransitionTime: before, ObservedGeneration: 7},
			{Type: names[1], Status: metav1.ConditionFalse, LastTransitionTime: before},
		}
	})
	final := s.FinalStatus(s.Pod)
	require.Equal(t, "web-0", final.Runner.PodName)
	require.EqualValues(t, "1", final.Runner.PodUID)
	said(stateRunning, nil)(&s)
	s.VM.Status.Runner.PodName, s.VM.Status.Runner.PodUID = "old", "0"
	require.Equal(t, "web-0", s.FinalStatus(s.Pod).Runner.PodName)
	said(stateRunning, nil)(&s)
	require.Equal(t, causeUnknown, final.Runner.Message, "there is no message")
	require.Len(t, final.Conditions, 2)
	changed := meta.FindStatusCondition(final.Conditions, names[0])
	same := meta.FindStatusCondition(final.Conditions, names[1])
	require.Equal(t, metav1.ConditionFalse, changed.Status)
	require.Equal(t, metav1.NewTime(noon), changed.LastTransitionTime)
	require.EqualValues(t, 7, changed.ObservedGeneration)
	require.Equal(t, before, same.LastTransitionTime)
	s.Pod.Status.ContainerStatuses = nil
	silent := s.FinalStatus(s.Pod)
	require.Equal(t, metav1.ConditionUnknown, silent.Conditions[0].Status)
	require.Equal(t, reasonNodeLost, silent.Runner.Reason)
	gone := s.FinalStatus(nil)
	require.Equal(t, "web-0", gone.Runner.PodName)
	require.Equal(t, reasonVMStopped, gone.Runner.Reason)
}

// A pod that is being deleted is checked after its grace period, and if that was shortened, again after the original
// one.
func TestLookAgainAt(t *testing.T) {
	t.Parallel()
	const late = deletionReserve + time.Second
	require.Zero(t, LookAgainAt(nil, noon))
	require.Zero(t, LookAgainAt(is().Pod, noon))
	pod := is(going(noon)).Pod
	require.Equal(t, noon.Add(late), LookAgainAt(pod, noon))
	require.Zero(t, LookAgainAt(pod, noon.Add(late)))
	pod = is(going(noon), shortened).Pod
	require.Equal(t, noon.Add(late), LookAgainAt(pod, noon))
	require.Equal(t, noon.Add(934*time.Second+late), LookAgainAt(pod, noon.Add(late)))
	pod.Spec.TerminationGracePeriodSeconds = pod.DeletionGracePeriodSeconds
	require.Zero(t, LookAgainAt(pod, noon.Add(late)), "it isn't shorter")
}

// An unchanged status isn't written again.
func TestSameStatus(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(noon)
	whole := func() v1.VirtualMachineStatus {
		return v1.VirtualMachineStatus{
			ObservedGeneration: 2, Phase: v1.PhaseFailed, Reason: "R", Message: "m", NodeName: "n1",
			Failures: &v1.Failures{Count: 1}, Privileges: []v1.Privilege{{Reason: "spec"}},
			Volumes:                []v1.Volume{{Claim: "a"}},
			RestartAwaitingChanges: []v1.RestartAwaitingChange{{Path: "nodeName"}},
			Conditions: []metav1.Condition{
				{Type: "A", Status: metav1.ConditionTrue, Reason: "R", Message: "m", LastTransitionTime: at},
				{Type: "B", Status: metav1.ConditionFalse, Reason: reasonNotStarted, LastTransitionTime: at},
			},
		}
	}
	more := metav1.Condition{Type: "C"}
	same, later := true, metav1.NewTime(noon.Add(time.Second))
	for what, tt := range map[string]struct {
		change func(is *v1.VirtualMachineStatus)
		want   bool
	}{
		"nothing":    {func(*v1.VirtualMachineStatus) {}, same},
		"generation": {func(is *v1.VirtualMachineStatus) { is.ObservedGeneration = 1 }, false},
		"phase":      {func(is *v1.VirtualMachineStatus) { is.Phase = v1.PhaseRunning }, false},
		"reason":     {func(is *v1.VirtualMachineStatus) { is.Reason = "" }, false},
		"message":    {func(is *v1.VirtualMachineStatus) { is.Message = "" }, false},
		"node":       {func(is *v1.VirtualMachineStatus) { is.NodeName = "" }, false},
		"failures":   {func(is *v1.VirtualMachineStatus) { is.Failures = nil }, false},
		"privileges": {func(is *v1.VirtualMachineStatus) { is.Privileges = nil }, false},
		"no volume":  {func(is *v1.VirtualMachineStatus) { is.Volumes = nil }, false},
		"a former volume": {
			func(is *v1.VirtualMachineStatus) { is.Volumes = append(is.Volumes, v1.Volume{Claim: "b"}) }, same,
		},
		"no condition": {func(is *v1.VirtualMachineStatus) { is.Conditions = is.Conditions[:1] }, false},
		"a runner's condition": {
			func(is *v1.VirtualMachineStatus) { is.Conditions = append(is.Conditions, more) }, same,
		},
		"a condition's message": {func(is *v1.VirtualMachineStatus) { is.Conditions[0].Message = "" }, false},
		"a first message":       {func(is *v1.VirtualMachineStatus) { is.Conditions[1].Message = "default" }, same},
		"a first status": {
			func(is *v1.VirtualMachineStatus) { is.Conditions[1].Status = metav1.ConditionTrue }, false,
		},
		"a first time": {
			func(is *v1.VirtualMachineStatus) { is.Conditions[1].LastTransitionTime = later }, false,
		},
	} {
		have := whole()
		tt.change(&have)
		require.Equal(t, tt.want, SameStatus(whole(), have), what)
	}
}

// A VM that is being deleted keeps the results of the last reconciliation.
func TestStatusOfAVMThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	kept := []metav1.Condition{{Type: v1.ConditionReconciled, Status: metav1.ConditionTrue, Message: "kept"}}
	s := is(deleted, failures(2, time.Minute), func(s *Situation) {
		s.VM.Status.Privileges = []v1.Privilege{{Reason: "spec"}}
		s.VM.Status.Conditions = append(kept, metav1.Condition{Type: v1.MachineConditions()[0]})
		s.Failures = nil
	})
	status := Status(s, Findings{Problems: []Problem{{"R", "m"}}}, PhaseOf(s))
	require.Equal(t, kept, status.Conditions)
	require.Equal(t, s.VM.Status.Privileges, status.Privileges)
	require.Equal(t, s.VM.Status.Failures, status.Failures)
	require.Equal(t, "n1", status.NodeName)
}

// A VM with more rights doesn't start with an untrusted claim.
func TestTrust(t *testing.T) {
	t.Parallel()
	s := &Snapshot{VM: machine("web"), Settings: objects.DefaultSettings()}
	s.VM.Spec.VM.Accelerator = "kvm"
	trusted, did := Trust(s, nil)
	require.True(t, trusted)
	require.Zero(t, did)
	trusted, did = Trust(s, []objects.Claim{{Name: "data", Path: "spec.vm.disks[0]", Untrusted: "its maker"}})
	require.False(t, trusted)
	require.Contains(t, did.Problems[0].Message, "claim data")
	require.Equal(t, Stalled{ReasonNotTrusted, did.Problems[0].Message}, did.Obstacle)
}

// A problem that two steps report appears only once.
func TestReconciled(t *testing.T) {
	t.Parallel()
	require.Equal(t, Verdict{metav1.ConditionTrue, "Done", ""}, reconciledVerdict(nil))
	require.Equal(t, Verdict{metav1.ConditionFalse, "A", "one; two"},
		reconciledVerdict([]Problem{{"A", "one"}, {"B", "two"}, {"B", "one"}}))
}

// VM-Operator's own template, which the type "standard" replaces, is accepted; any other template needs a type.
func TestTemplatesOfVMOperator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ template, source, want string }{
		{"mine.ftl.yaml", "standard", "mine.ftl.yaml"},
		{originalTemplate, "standard", ""},
		{"mine.ftl.yaml", "mine", ""},
	} {
		vm := machine("web")
		vm.Spec.VMType.Source = tt.source
		require.Empty(t, untranslatedTemplate(vm))
		vm.Spec.RunnerTemplate = &v1.RunnerTemplate{Source: tt.template}
		require.Equal(t, tt.want, untranslatedTemplate(vm))
		verdict := PreviewType(&Snapshot{VM: vm})
		require.Equal(t, tt.want != "", verdict != nil && verdict.Reason == ReasonTypeRefused, tt.template)
	}
}

// A kept type and a type with a missing ConfigMap aren't checked.
func TestPreviewOfAType(t *testing.T) {
	t.Parallel()
	s := is().Snapshot
	require.Nil(t, PreviewType(s))
	s.VM.Spec.VMType.Update = new(false)
	require.Nil(t, PreviewType(s), "it has not been started")
	s.VM.Status.VMType = "standard@1"
	require.Equal(t, ReasonTypeKept, PreviewType(s).Reason)
	s.VM.Spec.VMType.Update = new(true)
	require.Nil(t, PreviewType(s))
	s.VM.Spec.VMType.ConfigMap = "types"
	require.Equal(t, Stalled{ReasonTypesMissing, "spec.vmType.configMap: there is no ConfigMap types"},
		PreviewType(s).Obstacle())
	require.Nil(t, TypeAccepted().Obstacle())
	require.Nil(t, TypeUnknown("").Obstacle())
}

// The message explains why a VM isn't running.
func TestNotWanted(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Situation{
		"spec.runPolicy is AlwaysOff":                               is(policy(v1.AlwaysOff)),
		"spec.vm.state is Stopped":                                  is(notWanted, policy(v1.Manual)),
		"spec.vm.state is not set, which means Stopped":             is(unset),
		"spec.runPolicy is Manual, and the VM has not been started": is(unset, policy(v1.Manual)),
	} {
		require.Equal(t, want, s.notWanted())
	}
}

// A VM that is being deleted stays as long as other programs' finalizers hold it.
func TestFinalizers(t *testing.T) {
	t.Parallel()
	holds := func(s *Situation) {
		s.VM.Finalizers = []string{metav1.FinalizerOrphanDependents, "a/b", metav1.FinalizerDeleteDependents, "c/d"}
	}
	const message = "the VM is being deleted"
	require.Equal(t, message, is(deleted).deletionMessage())
	require.Equal(t, message+"; it stays, with its guest running, until these finalizers are removed: a/b, c/d",
		is(deleted, holds).deletionMessage())
	for _, s := range []Situation{is(deleted, holds, noPod), is(deleted, holds, going(noon))} {
		require.Equal(t, message+"; it stays until these finalizers are removed: a/b, c/d", s.deletionMessage())
	}
}

// A node that the VM names has acknowledged a pod as soon as it reports anything about the pod.
func TestAcknowledgeBy(t *testing.T) {
	t.Parallel()
	require.Zero(t, AcknowledgeBy(nil))
	pod := is(neglectedFor(time.Second)).Pod
	require.Equal(t, noon.Add(29*time.Second), AcknowledgeBy(pod))
	for what, acknowledge := range map[string]func(*corev1.Pod){
		"no node":       func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"not named":     func(p *corev1.Pod) { p.Annotations = nil },
		"its container": func(p *corev1.Pod) { p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1) },
		"not ready": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		},
	} {
		other := pod.DeepCopy()
		acknowledge(other)
		require.Zero(t, AcknowledgeBy(other), what)
	}
}

// The manager writes the machine's first conditions as long as no runner has reported.
func TestFirstConditions(t *testing.T) {
	t.Parallel()
	require.Nil(t, is().firstConditions())
	classless := len(v1.ManagerConditions()) - 1
	require.Len(t, Status(is(), Findings{}, Phase{}).Conditions, classless)
	first := is(noPodYet).firstConditions()
	require.Subset(t, Status(is(noPodYet), Findings{}, Phase{}).Conditions, first)
	require.Len(t, first, len(v1.MachineConditions()))
	require.Equal(t, reasonNotStarted, first[0].Reason)
	require.Equal(t, metav1.ConditionFalse, first[0].Status)
}
