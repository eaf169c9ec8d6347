package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/web/fleet"
	"vmop/vmstatus"
)

func conditions(all ...metav1.Condition) []metav1.Condition { return all }

func is(kind string, status metav1.ConditionStatus, reason, message string, at time.Time) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at),
	}
}

var then = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// runnerOf returns the status of a reachable runner.
func runnerOf(pod *corev1.Pod) *v1.RunnerStatus {
	return &v1.RunnerStatus{PodUID: pod.UID, State: "Booted", Control: &v1.RunnerControl{Port: 7443, Key: "ab"}}
}

// Shown states, their times, and the possible actions.
func TestStates(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
	pod.CreationTimestamp = metav1.NewTime(then.Add(time.Minute))
	going := pod.DeepCopy()
	going.DeletionGracePeriodSeconds = new(int64(3600))
	going.DeletionTimestamp = new(metav1.NewTime(then.Add(time.Hour)))
	ready := func(status metav1.ConditionStatus, reason vmstatus.Reason) []metav1.Condition {
		return conditions(is("Running", "True", "", "", then),
			is("Ready", status, string(reason), "why", then.Add(time.Second)))
	}
	for name, c := range map[string]struct {
		wanted v1.State
		status v1.VirtualMachineStatus
		pod    *corev1.Pod
		gone   bool
		state  fleet.State
		since  time.Time
		can    string
	}{
		"new": {wanted: v1.Running, state: fleet.Pending, can: "stop kill delete "},
		"stopped": {
			status: v1.VirtualMachineStatus{Phase: v1.PhaseStopped}, state: fleet.Stopped, can: "start delete ",
		},
		"starting": {
			v1.Running,
			v1.VirtualMachineStatus{Phase: v1.PhaseStarting},
			pod, false, fleet.Starting,
			then.Add(time.Minute), "stop kill restart force-restart ",
		},
		"running": {
			v1.Running, v1.VirtualMachineStatus{
				Phase: v1.PhaseRunning, Runner: runnerOf(pod), Conditions: ready("True", ""),
			}, pod, false, fleet.Running, then, "stop kill restart force-restart reset pause migrate ",
		},
		"running, and out of reach": {
			v1.Running,
			v1.VirtualMachineStatus{Phase: v1.PhaseRunning, Conditions: ready("True", "")},
			pod, false, fleet.Running, then, "stop kill restart force-restart reset migrate ",
		},
		"paused": {
			v1.Running, v1.VirtualMachineStatus{
				Phase: v1.PhaseRunning, Runner: runnerOf(pod), Conditions: ready("False", vmstatus.ReasonPaused),
			}, pod, false, fleet.Paused, then.Add(time.Second), "stop kill restart force-restart reset resume migrate ",
		},
		"held by a disk": {
			v1.Running, v1.VirtualMachineStatus{
				Phase: v1.PhaseRunning, Runner: runnerOf(pod), Conditions: ready("False", vmstatus.ReasonIOError),
			}, pod, false, fleet.Paused, then.Add(time.Second), "stop kill restart force-restart reset migrate ",
		},
		"stopping": {
			v1.Stopped,
			v1.VirtualMachineStatus{Phase: v1.PhaseStopping, Runner: runnerOf(pod)},
			going, false, fleet.Stopping, then, "start kill force-restart ",
		},
		"failed": {
			v1.Running, v1.VirtualMachineStatus{
				Phase: v1.PhaseFailed, Failures: &v1.Failures{LastTime: metav1.NewTime(then)},
			}, nil, false, fleet.Failed, then, "start stop kill delete ",
		},
		"being deleted": {
			v1.Running,
			v1.VirtualMachineStatus{Phase: v1.PhaseRunning, Runner: runnerOf(pod)},
			going, true, fleet.Terminating, then, "kill ",
		},
	} {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: c.status}
		vm.Spec.VM.State = c.wanted
		if c.gone {
			vm.DeletionTimestamp = new(metav1.NewTime(then))
		}
		v := newView(vm, c.pod, nil)
		require.Equal(t, c.state, v.State, name)
		require.Equal(t, c.since, v.Since.UTC(), name)
		can := ""
		for _, a := range fleet.Actions() {
			if v.Can[a] {
				can += string(a) + " "
			}
		}
		require.Equal(t, c.can, can, name)
	}
}

// A movable guest can be moved, once at a time. For others the reason is known.
func TestMigrationsOfAVM(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
	vm := &v1.VirtualMachine{Status: v1.VirtualMachineStatus{Phase: v1.PhaseRunning, Runner: runnerOf(pod)}}
	shown := newView(vm, pod, nil)
	require.True(t, shown.Can[fleet.Migrate])
	require.Nil(t, shown.Migration)
	require.False(t, newView(vm, nil, nil).Can[fleet.Migrate])

	vm.Status.Phase = v1.PhaseMigrating
	vm.Status.Migration = &v1.Migration{
		Stage: v1.MigrationMoving, Source: v1.MigrationPod{NodeName: "n1"}, Target: v1.MigrationPod{NodeName: "n2"},
		Progress: 45, Message: "it moves",
	}
	shown = newView(vm, pod, nil)
	require.Equal(t, &fleet.Migration{From: "n1", To: "n2", Progress: 45, Message: "it moves"}, shown.Migration)
	for _, a := range []fleet.Action{fleet.Migrate, fleet.Pause, fleet.Reset} {
		require.False(t, shown.Can[a], a)
	}

	vm.Status.Phase, vm.Status.Migration.Stage = v1.PhaseRunning, v1.MigrationFailed
	vm.Spec.NodeName = "n1"
	shown = newView(vm, pod, nil)
	require.Nil(t, shown.Migration)
	require.False(t, shown.Can[fleet.Migrate])
	require.Contains(t, shown.Refused[fleet.Migrate], "spec.nodeName names it")
}

// Everything on a page comes from the resource and its pod.
func TestFacts(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "p"}}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"tier": "front"}}}
	vm.Spec.VMType.Source = "standard"
	vm.Spec.VM.State, vm.Spec.VM.CPUTopology = v1.Running, &v1.CPUTopology{Sockets: 2, CoresPerDie: 2}
	vm.Spec.VM.CurrentCPUs, vm.Spec.VM.Display = new(int32(3)), &v1.Display{LoggedInUser: "alice"}
	vm.Spec.VM.Disks = []v1.Disk{
		{VolumeClaimTemplate: &v1.VolumeClaimTemplate{Metadata: v1.ClaimMetadata{Name: "system"}}},
		{CDROM: &v1.CDROM{Image: "https://me:canary@x/y.iso"}},
	}
	vm.Spec.Permissions = []v1.Permission{{User: "bob", May: []v1.Action{"start"}}}
	vm.Status = v1.VirtualMachineStatus{
		Phase: v1.PhaseRunning, NodeName: "n1", Runner: runnerOf(pod), VMType: "pc", UUID: "u", CPUs: 2, RAM: "5Gi",
		LoggedInUser: "alice", ConsoleClient: "10.1.1.1",
		OSInfo: &runtime.RawExtension{Raw: []byte(`{"id": "debian", "pretty-name": "<b>Debian 12"}`)},
		Addresses: []v1.Address{
			{
				Address: "10.9.0.15", From: "Network", Source: "Configuration",
				Ports: []v1.AddressPort{{Port: 22, Guest: 22, Protocol: "TCP"}},
			},
			{Address: "192.0.2.7", From: "Network", Source: "Agent"},
		},
		RestartAwaitingChanges: []v1.RestartAwaitingChange{{
			Path: "vm.maximumCpus", Operation: "replace",
			CurrentValue: &runtime.RawExtension{Raw: []byte("4")},
			DesiredValue: &runtime.RawExtension{Raw: []byte("8")},
		}},
		Conditions: conditions(
			is("Running", "True", "", "", then), is("Ready", "True", "", "", then),
			is("ConsoleConnected", "True", "Connected", "vnc bob", then),
			is("Reconciled", "False", "Refused", "the Service is refused", then),
			is("ConfigApplied", "False", "NotPossible", "vm.currentRam: no driver", then),
			is("Booted", "False", "Creation", "", time.Unix(0, 0)),
		),
	}
	v := newView(vm, pod, nil)
	require.Equal(t, fleet.Amount{Now: 2, Wanted: 3, Maximum: 4}, v.CPUs)
	require.EqualValues(t, 5<<30, v.RAM.Now)
	require.Equal(t, []fleet.Address{
		{Address: "10.9.0.15", From: "Network", Ports: []fleet.Port{{TCP: true, Port: 22, Guest: 22}}},
		{Address: "192.0.2.7", From: "Network", Claimed: true},
	}, v.Addresses)
	require.Equal(t, "ssh 192.0.2.7", v.SSH, "users are outside of the pods' network")
	vm.Namespace, vm.Status.Addresses = "vmop", vm.Status.Addresses[:1]
	require.Equal(t, "kubectl vmop ssh web -n vmop", newView(vm, pod, nil).SSH)
	require.Equal(t, []fleet.Drive{{Name: "drive 1", Medium: "https://x/y.iso"}}, v.Drives)
	require.Equal(t, []fleet.Viewer{{Kind: "vnc", Who: "bob", Since: then}}, v.Viewers)
	require.Equal(t, []fleet.Change{{
		Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4.0, DesiredValue: 8.0,
	}}, v.RestartAwaitingChanges)
	require.Equal(t, []fleet.Problem{{Message: "the Service is refused"}, {Message: "vm.currentRam: no driver"}},
		v.Problems)
	require.True(t, v.Screen && v.Console && v.Wanted)
	require.Equal(t, "pc alice n1 <b>Debian 12 debian", v.Type+" "+v.User+" "+v.Node+" "+v.OS+" "+v.OSID)
	require.Equal(t, then, v.Started)
	require.True(t, v.Conditions[5].Since.IsZero(), "the default of the definition is no time")
	require.Equal(t, access.VM{
		Name: "web", Permissions: vm.Spec.Permissions, ConsoleUser: "bob", LogInRequested: true, LoggedInUser: "alice",
	}, rightsOf(vm))
}
