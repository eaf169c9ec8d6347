package k8s_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "vmop/api/v1"
	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// since returns the transition time of a condition.
func since(s v1.VirtualMachineStatus, kind string) time.Time {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return c.LastTransitionTime.UTC()
	}
	return time.Time{}
}

func is(s v1.VirtualMachineStatus, kind string, want metav1.ConditionStatus) bool {
	return meta.IsStatusConditionPresentAndEqual(s.Conditions, kind, want)
}

// A runner that adopts a VM keeps the transition times of its conditions, and doesn't report unknown conditions as
// ended.
func TestTransitionTimesAreTakenOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.patch("vm-runner", `{"status": {"conditions": [
		{"type": "Running", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"},
		{"type": "Booted", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-02T03:05:05Z"},
		{"type": "ConsoleConnected", "status": "True", "reason": "Connected", "message": "", "lastTransitionTime": "2026-01-02T04:05:05Z"}]}}`)
	tracker, _, _ := p.follow(status.Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonRunnerRestarted},
		status.Process{PID: 1})
	tell(t, tracker, status.Answered{})
	s := p.eventually("the runner took over", func(s v1.VirtualMachineStatus) bool { return s.Runner != nil })
	require.Equal(t, "Booted", s.Runner.State, "what happens in the beginning is not told")
	require.Equal(t, "2026-01-02 03:04:05 +0000 UTC", since(s, "Running").String())
	require.Equal(t, "2026-01-02 03:05:05 +0000 UTC", since(s, "Booted").String())
	require.True(t, is(s, "ConsoleConnected", metav1.ConditionFalse), "this has changed")
	require.WithinDuration(t, time.Now(), since(s, "ConsoleConnected"), wait.Longest)
	tell(t, tracker, status.CPUs(7))
	s = p.eventually("the next report", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 7 })
	require.Equal(t, "2026-01-02 03:05:05 +0000 UTC", since(s, "Booted").String())
}

// The conditions of a new resource have the time 1970, which is not reported as a transition time.
func TestNoTransitionIsFrom1970(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.follow(status.Entered{State: vmstatus.StateBooting})
	s := p.eventually("the runner speaks", func(s v1.VirtualMachineStatus) bool { return s.Runner != nil })
	for _, c := range s.Conditions {
		require.WithinDuration(t, time.Now(), c.LastTransitionTime.Time, wait.Longest, c.Type)
	}
}

// Parts of the status from different writers don't conflict, even with writes in between.
func TestOthersWriteTheirPart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tracker, _, _ := p.follow(status.Entered{State: vmstatus.StateBooting})
	for i := range 20 {
		p.patch("vm-operator", fmt.Sprintf(`{"status": {"phase": "Running", "message": "%d"}}`, i))
		tell(t, tracker, status.CPUs(i+1))
	}
	s := p.eventually("the last number", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 20 })
	require.Equal(t, "19", s.Message)
	require.Equal(t, v1.PhaseRunning, s.Phase)
}

// Text from the guest and clients can be long, invalid and plentiful. The resource stays small and every report is
// accepted.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	long := strings.Repeat("\x1b[2J\x00\u202e\U0001F600\xff{{.}}\n", 5000)
	var many []status.Interface
	var pending status.Pending
	for i := range 300 {
		one := status.Interface{Name: long, MAC: long, Addresses: []string{long, "10.0.0.1/99"}}
		for n := range 50 {
			one.Addresses = append(one.Addresses, fmt.Sprintf("2001:db8:1111:2222:3333:4444:%x:%x/64", i, n))
		}
		many = append(many, one)
		pending.Changes = append(pending.Changes, status.Change{
			Path:         fmt.Sprintf("vm.options.%d%s", i, long),
			CurrentValue: map[string]any{"a": long}, DesiredValue: []any{long}, Operation: "replace",
		})
	}
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	tell(t, tracker, status.GuestOS{Info: &status.OSInfo{ID: long, Name: long, PrettyName: long, KernelVersion: long}},
		status.Interfaces(many), pending,
		status.VmopAgent(true), status.WantedUser(long), status.LoginFailure(long), status.LoggedIn(long),
		status.ConsoleOpened{Kind: status.VNC, Client: long}, status.Read{Generation: 2, Error: long},
		status.Entered{State: vmstatus.StateBooted, Message: long})
	s := p.eventually("the guest booted", func(s v1.VirtualMachineStatus) bool {
		return is(s, "Booted", metav1.ConditionTrue)
	})
	require.Len(t, s.Interfaces, 32)
	require.Len(t, s.RestartAwaitingChanges, 64)
	require.Equal(t, `"237 more changes"`, string(s.RestartAwaitingChanges[63].DesiredValue.Raw))
	whole := p.Kubectl("get", "vms", "web", "-o", "json")
	require.Less(t, len(whole), 160<<10)
	var object any
	require.NoError(t, json.Unmarshal([]byte(whole), &object))
	require.NotRegexp(t, "[\x00-\x09\x0b-\x1f\u202e]", fmt.Sprint(object))
	tell(t, tracker, status.Ended{Cause: "crashed", ExitCode: 1, Message: long})
	<-r.Done()
	require.True(t, is(p.vm("web").Status, "Running", metav1.ConditionFalse))
	require.NotContains(t, log.String(), "WARN")
}

// events returns the reasons and notes of the VM's events.
func (p *place) events() []string {
	p.t.Helper()
	list, err := p.objects.Resource(schema.GroupVersionResource{
		Group: "events.k8s.io", Version: "v1",
		Resource: "events",
	}).
		Namespace(p.Name).List(p.t.Context(),
		metav1.ListOptions{FieldSelector: "reportingController=vmoperator.jdrupes.org/vm-runner"})
	require.NoError(p.t, err)
	var all []string
	for _, e := range list.Items {
		text := func(key string) string { s, _ := e.Object[key].(string); return s }
		about := e.Object["regarding"].(map[string]any)
		require.Equal(p.t, "web", about["name"])
		require.EqualValues(p.t, p.vm("web").UID, about["uid"], "so that kubectl describe shows it")
		all = append(all, strings.TrimSpace(text("type")+" "+text("reason")+" "+text("note")))
	}
	return all
}

// State changes and viewers of the screen are reported as events. Frequent changes are not.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tracker, r, _ := p.follow()
	p.eventually("the runner", func(s v1.VirtualMachineStatus) bool { return s.Runner != nil })
	tell(t, tracker, status.Entered{State: vmstatus.StateBooting})
	p.eventually("Running", func(s v1.VirtualMachineStatus) bool { return is(s, "Running", metav1.ConditionTrue) })
	tell(t, tracker, status.ConsoleOpened{Kind: status.SPICE, Client: "10.0.0.9:4000"})
	p.eventually("who looks", func(s v1.VirtualMachineStatus) bool { return s.ConsoleClient == "10.0.0.9" })
	tell(t, tracker, status.ConsoleClosed{Kind: status.SPICE, Client: "10.0.0.9:4000"})
	p.eventually("there is no viewer", func(s v1.VirtualMachineStatus) bool { return s.ConsoleClient == "" })
	tell(t, tracker, status.Ended{Cause: "killed", ExitCode: 137, Message: "killed by signal 9"})
	<-r.Done()
	require.Subset(t, p.events(), []string{
		"Normal RunnerStarted the runner is preparing the machine", "Normal VmStarted the guest is running",
		"Normal ConsoleConnected spice 10.0.0.9:4000", "Normal ConsoleDisconnected spice 10.0.0.9:4000",
		"Warning VmStopped killed by signal 9",
	})

	q := newPlace(t)
	tracker, r, _ = q.follow(status.Entered{State: vmstatus.StateBooting})
	for i := range 200 {
		tell(t, tracker, status.ConsoleOpened{Kind: status.VNC, Client: fmt.Sprintf("10.0.0.9:%d", i)})
	}
	q.eventually("there is a viewer", func(s v1.VirtualMachineStatus) bool { return s.ConsoleClient != "" })
	tell(t, tracker, status.Ended{Cause: "asked"})
	<-r.Done()
	require.LessOrEqual(t, len(q.events()), 18)
}

// A missing VM resource causes no errors, and reporting continues when it is created again.
func TestAVMThatWasDeleted(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t)
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	p.eventually("Running", func(s v1.VirtualMachineStatus) bool { return is(s, "Running", metav1.ConditionTrue) })
	p.Kubectl("delete", "vms", "web")
	tell(t, tracker, status.CPUs(2))
	wait.Until(t, func() bool { return !r.Heard() })
	p.Apply(machine("web"))
	s := p.eventually("it is reported again", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
	require.WithinDuration(t, time.Now(), since(s, "Running"), wait.Longest)
	wait.Until(t, r.Heard)
	p.Kubectl("delete", "vms", "web")
	tell(t, tracker, status.Ended{Cause: "asked"})
	<-r.Done() // doesn't wait for the VM's resource
	require.False(t, r.Heard())
	require.NotContains(t, log.String(), "WARN")
}

// A refusal by the API server is logged once with its message, and does not prevent other reports.
func TestFault32TheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// The real API server accepts everything, so the test adds a rule.
	rule := "no-osinfo." + p.Name
	p.Apply(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: `+rule+`}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [vmoperator.jdrupes.org], apiVersions: ["*"], resources: [vms/status], operations: [UPDATE]}]}
  matchConditions: [{name: here, expression: request.namespace == '`+p.Name+`'}]
  validations: [{expression: "!has(object.status.osinfo)", message: status.osinfo is not liked, reason: Invalid}]
`, `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: `+rule+`}
spec: {policyName: `+rule+`, validationActions: [Deny]}
`)
	t.Cleanup(func() {
		_, err := p.Cluster.Kubectl(context.WithoutCancel(t.Context()), "delete",
			"validatingadmissionpolicy,validatingadmissionpolicybinding", rule)
		require.NoError(t, err)
	})
	tracker, _, log := p.follow(status.Entered{State: vmstatus.StateBooting},
		status.GuestOS{Info: &status.OSInfo{ID: "debian"}})
	refused := func() bool { return strings.Contains(log.String(), "status.osinfo is not liked") }
	for i := 1; !refused(); i++ { // a rule takes a moment to become active
		tell(t, tracker, status.CPUs(i))
		time.Sleep(tick)
	}
	tell(t, tracker, status.CPUs(1000))
	s := p.eventually("the rest", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 1000 })
	require.Nil(t, s.OSInfo)
	require.True(t, is(s, "Running", metav1.ConditionTrue))
	tell(t, tracker, status.CPUs(1001))
	p.eventually("the rest again", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 1001 })
	require.Equal(t, 1, strings.Count(log.String(), "status.osinfo is not liked"))
	require.Contains(t, log.String(), fmt.Sprint(http.StatusUnprocessableEntity))

	tell(t, tracker, status.GuestOS{})
	p.Kubectl("delete", "rolebinding", "vm-runner")
	for i := 2000; !strings.Contains(log.String(), "may not report"); i++ {
		tell(t, tracker, status.CPUs(i))
		time.Sleep(tick)
	}
	p.allow()
	tell(t, tracker, status.CPUs(5000))
	p.eventually("it may again", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 5000 })
	wait.Until(t, func() bool {
		return strings.Contains(log.String(), "the status is reported again")
	})
	require.Equal(t, 1, strings.Count(log.String(), "may not report"))
}

// A replaced token is used immediately.
func TestFault32TheTokenIsExchanged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	valid := p.read(p.account + "/token")
	p.file("token", "none")
	tracker, _, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	wait.Until(t, func() bool { return strings.Contains(log.String(), "401") })
	p.file("token", valid)
	p.eventually("Running", func(s v1.VirtualMachineStatus) bool { return is(s, "Running", metav1.ConditionTrue) })
	p.token("web-0")
	tell(t, tracker, status.CPUs(2))
	p.eventually("with the next one", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
}

// A recreated resource that has adopted the VM receives the complete status of its predecessor, as soon as the
// configuration is its own.
func TestAnotherResource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tracker, _, _ := p.follow()
	tell(t, tracker, status.Entered{State: vmstatus.StateBooting}, status.Read{Generation: 1, Resource: "one"},
		status.Applied(1), status.CPUs(2))
	p.eventually("the guest runs", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
	p.Kubectl("delete", "vms", "web")
	p.Apply(machine("web"))
	require.Zero(t, p.vm("web").Status.CPUs)
	tell(t, tracker, status.Read{Generation: 1, Resource: "two"}, status.Applied(1))
	p.eventually("the guest runs", func(s v1.VirtualMachineStatus) bool {
		return s.CPUs == 2 && s.Runner.State == "Booting"
	})
}
