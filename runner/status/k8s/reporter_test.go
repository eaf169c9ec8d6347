package k8s_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/runner/status"
	"vmop/runner/status/k8s"
	"vmop/test/logbook"
	"vmop/vmstatus"
)

// follow reports a tracker's status until the test ends.
func (p *place) follow(updates ...status.Update) (*status.Tracker, *k8s.Reporter, *logbook.Logbook) {
	p.t.Helper()
	log := &logbook.Logbook{}
	tracker := status.NewTracker(time.Now, append([]status.Update{status.Described{Name: "web"}}, updates...)...)
	r := k8s.NewReporter(p.pod(), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	r.Follow(p.t.Context(), tracker, "")
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("the reporter's log:\n%s", log)
		}
		_ = tracker.Update(status.Ended{Cause: "asked"}) // the VM may have ended already
		<-r.Done()
	})
	return tracker, r, log
}

func tell(t *testing.T, tracker *status.Tracker, updates ...status.Update) {
	t.Helper()
	require.NoError(t, tracker.Update(updates...))
}

// The resource contains the runner's status under its own field names, and finally the VM's end.
func TestStatus(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tracker, r, log := p.follow()
	tell(t, tracker, status.Entered{State: vmstatus.StateStarting},
		status.Described{
			Name: "web", UUID: "081bc4a9-6816-4be2-9011-9949c1336f71", VMType: "standard",
			Runner: status.Runner{Version: "1.2"}, Emulated: "there is no /dev/kvm",
		})
	tell(t, tracker, status.Entered{State: vmstatus.StateBooting}, status.Read{Generation: 3}, status.Applied(3),
		status.CPUs(2), status.RAM(384<<20))
	tell(t, tracker, status.ConsoleOpened{Kind: status.Serial, Client: "uid 0 pid 7"},
		status.ConsoleOpened{Kind: status.SPICE, Client: "[2001:db8::7]:49152"},
		status.PasswordSerial(-1), status.WantedUser("joe"), status.VmopAgent(true), status.LoggedIn("joe"),
		status.Answered{},
		status.GuestOS{Info: &status.OSInfo{ID: "debian", PrettyName: "Debian GNU/Linux 12"}},
		status.Interfaces{{Name: "eth0", MAC: "52:54:00:12:34:56", Addresses: []string{"10.0.2.15/24", "fe80::1/64"}}},
		status.Cards{{MAC: "52:54:00:12:34:56", Addresses: []status.Address{
			{Address: "10.77.0.2", From: status.FromHost, Source: status.SourceDHCP},
			{
				Address: "192.0.2.9", From: status.FromNetwork, Source: status.SourceConfiguration,
				Ports: []status.AddressPort{{Protocol: "udp", Port: 53, Guest: 5353}},
			},
		}}},
		status.Pending{Arguments: []string{"- -smp 2", "+ -smp 4"}, Changes: []status.Change{
			{Path: "vm.maximumCpus", CurrentValue: 2, DesiredValue: 4, Operation: "replace"},
			{Path: "vm.network[0].mac", DesiredValue: "52:54:00:00:00:01", Operation: "add"},
			{Path: "vm.network[0].net", CurrentValue: "10.0.2.0/24", Operation: "remove"},
		}})
	s := p.eventually("the guest booted", func(s v1.VirtualMachineStatus) bool { return s.LoggedInUser == "joe" })
	require.Equal(t, &v1.RunnerStatus{
		PodName: "web-0", PodUID: "4711", State: "Booted", Reason: "VmBooted", ComparedGeneration: 3,
		AwaitsServers: true,
	}, s.Runner)
	require.Equal(t, "081bc4a9-6816-4be2-9011-9949c1336f71 standard 1.2", s.UUID+" "+s.VMType+" "+s.RunnerVersion)
	require.EqualValues(t, 2, s.CPUs)
	require.Equal(t, "384Mi", s.RAM)
	require.Equal(t, "2001:db8::7", s.ConsoleClient)
	require.EqualValues(t, -1, s.DisplayPasswordSerial)
	require.JSONEq(t, `{"id": "debian", "pretty-name": "Debian GNU/Linux 12"}`, string(s.OSInfo.Raw))
	require.Equal(t, []v1.Interface{{Name: "eth0", MAC: "52:54:00:12:34:56", IPs: []string{"10.0.2.15", "fe80::1"}}},
		s.Interfaces)
	require.Equal(t, []v1.Address{
		{
			Address: "192.0.2.9", Interface: "eth0", MAC: "52:54:00:12:34:56", From: "Network", Source: "Configuration",
			Ports: []v1.AddressPort{{Port: 53, Guest: 5353, Protocol: "UDP"}},
		},
		{Address: "10.77.0.2", Interface: "eth0", MAC: "52:54:00:12:34:56", From: "Pod", Source: "DHCP"},
	}, s.Addresses)
	require.Equal(t, []v1.RestartAwaitingChange{
		{Path: "vm.maximumCpus", Operation: "replace", CurrentValue: raw("2"), DesiredValue: raw("4")},
		{
			Path: "vm.networks[0]", Operation: "replace", CurrentValue: raw(`{"net":"10.0.2.0/24"}`),
			DesiredValue: raw(`{"mac":"52:54:00:00:00:01"}`),
		},
	}, s.RestartAwaitingChanges)
	require.Equal(t, []string{"- -smp 2", "+ -smp 4"}, s.RestartAwaitingArguments)
	conditions := map[string]string{}
	for _, c := range s.Conditions {
		if c.Type == "Running" {
			require.Equal(t, "without KVM the guest is slow; spec.vm.accelerator: auto is tcg here, because there is no /dev/kvm", c.Message)
		}
		require.EqualValues(t, 3, c.ObservedGeneration, c.Type)
		conditions[c.Type] = string(c.Status) + " " + c.Reason
	}
	require.Equal(t, map[string]string{
		"Running": "True VmBooted", "Booted": "True VmBooted", "Ready": "True VmBooted",
		"Confined":           "False NotRecorded",
		"VmopAgentConnected": "True VmopAgentStarted",
		"UserLoggedIn":       "True LoggedIn", "ConsoleConnected": "True Connected", "ConfigApplied": "True Applied",
		"TPMLost": "False NoTPM",
	}, conditions)

	tell(t, tracker, status.Ended{Cause: "guest shutdown", Reason: "guest-shutdown", Message: "guest shutdown"})
	<-r.Done()
	require.True(t, r.Heard())
	s = p.vm("web").Status
	require.Equal(t, &v1.Outcome{Cause: "guest shutdown", Reason: "guest-shutdown", Message: "guest shutdown"},
		s.Runner.Outcome)
	require.Equal(t, "Stopped 0 0", s.Runner.State+" "+s.RAM+" "+string(rune('0'+s.CPUs)))
	require.Nil(t, s.OSInfo)
	require.Empty(t, s.Interfaces)
	require.Empty(t, s.Addresses)
	require.Empty(t, s.RestartAwaitingChanges)
	require.Empty(t, s.RestartAwaitingArguments)
	require.Empty(t, s.LoggedInUser)
	for _, c := range s.Conditions {
		require.EqualValues(t, "False", c.Status, c.Type)
	}
	require.NotContains(t, log.String(), "WARN")
}

func raw(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }
