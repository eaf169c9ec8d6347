package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// Each case shows the true conditions and their reasons.
func TestConditions(t *testing.T) {
	t.Parallel()
	in := func(s vmstatus.State, more ...Update) []Update { return append([]Update{Entered{State: s}}, more...) }
	ran := func(more ...Update) []Update { return in(vmstatus.StateBooted, more...) }
	table := []struct {
		condition vmstatus.ConditionType
		want      string // status and reason
		after     []Update
	}{
		{vmstatus.ConditionRunning, "False RunnerStarted", in(vmstatus.StateInitializing)},
		{vmstatus.ConditionRunning, "False RunnerStarted", in(vmstatus.StateStarting)},
		{vmstatus.ConditionRunning, "True VmStarted", in(vmstatus.StateBooting)},
		{vmstatus.ConditionRunning, "True VmBooted", in(vmstatus.StateBooted)},
		{vmstatus.ConditionRunning, "True VmTerminating", ran(Entered{State: vmstatus.StateTerminating})},
		{vmstatus.ConditionRunning, "False VmTerminating", in(vmstatus.StateTerminating)}, // before the guest ran
		{vmstatus.ConditionRunning, "False VmStopped", ran(Ended{})},
		{vmstatus.ConditionRunning, "False StartFailed", in(vmstatus.StateStarting, Ended{})},
		{vmstatus.ConditionRunning, "True RunnerRestarted", in(vmstatus.StateInitializing, Began(at(0)),
			Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonRunnerRestarted})},

		{vmstatus.ConditionBooted, "False VmStarted", in(vmstatus.StateBooting)},
		{vmstatus.ConditionBooted, "True VmBooted", in(vmstatus.StateBooted)},
		{
			vmstatus.ConditionBooted, "False VmReset",
			ran(Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonVMReset}),
		},
		{vmstatus.ConditionBooted, "False VmTerminating", ran(Entered{State: vmstatus.StateTerminating})},

		{vmstatus.ConditionReady, "False RunnerStarted", in(vmstatus.StateStarting)},
		{vmstatus.ConditionReady, "True VmStarted", in(vmstatus.StateBooting)},
		{vmstatus.ConditionReady, "True VmBooted", ran(RunState("running"))},
		{vmstatus.ConditionReady, "False Paused", ran(RunState("paused"))},
		{vmstatus.ConditionReady, "False IOError", ran(RunState("io-error"))},
		{vmstatus.ConditionReady, "False GuestPanicked", ran(RunState("guest-panicked"))},
		{vmstatus.ConditionReady, "False MachineHeld", ran(RunState("internal-error"))},
		{
			vmstatus.ConditionReady, "False GuestPanicked",
			ran(RunState("running"), Faults{vmstatus.ReasonGuestPanicked, fields("panic")}),
		},
		{vmstatus.ConditionReady, "True VmBooted", ran(RunState("running"),
			Faults{vmstatus.ReasonGuestPanicked, fields("panic")}, Faults{vmstatus.ReasonGuestPanicked, nil})},
		{vmstatus.ConditionReady, "False VmTerminating", ran(Entered{State: vmstatus.StateTerminating})},

		{vmstatus.ConditionVmopAgent, "False RunnerStarted", in(vmstatus.StateStarting, VmopAgent(true))},
		{vmstatus.ConditionVmopAgent, "False VmopAgentDisconnected", in(vmstatus.StateBooting)},
		{vmstatus.ConditionVmopAgent, "True VmopAgentStarted", ran(VmopAgent(true))},
		{vmstatus.ConditionVmopAgent, "False VmopAgentDisconnected", ran(VmopAgent(true), VmopAgent(false))},
		{vmstatus.ConditionVmopAgent, "False VmStopped", ran(VmopAgent(true), Ended{})},

		{vmstatus.ConditionUserLoggedIn, "False NotRequested", ran(VmopAgent(true))},
		{vmstatus.ConditionUserLoggedIn, "False VmopAgentDisconnected", ran(WantedUser("alice"))},
		{vmstatus.ConditionUserLoggedIn, "False Processing", ran(WantedUser("alice"), VmopAgent(true))},
		{
			vmstatus.ConditionUserLoggedIn, "False Processing",
			ran(WantedUser("alice"), VmopAgent(true), LoggedIn("bob")),
		},
		{
			vmstatus.ConditionUserLoggedIn, "False LoginFailed",
			ran(WantedUser("root"), VmopAgent(true), LoginFailure("504 no")),
		},
		{
			vmstatus.ConditionUserLoggedIn, "False NotRequested",
			ran(VmopAgent(true), LoginFailure("500 cannot log out")),
		},
		{
			vmstatus.ConditionUserLoggedIn, "False VmopAgentDisconnected",
			ran(WantedUser("root"), VmopAgent(true), LoginFailure("504 no"), VmopAgent(false)),
		},
		{vmstatus.ConditionUserLoggedIn, "True LoggedIn", ran(WantedUser("alice"), VmopAgent(true), LoggedIn("alice"))},
		{vmstatus.ConditionUserLoggedIn, "False VmStopped", ran(WantedUser("alice"), VmopAgent(true), LoggedIn("alice"),
			Ended{})},

		{vmstatus.ConditionConsoleConnected, "False Disconnected", in(vmstatus.StateBooting)},
		{
			vmstatus.ConditionConsoleConnected, "False Disconnected",
			in(vmstatus.StateBooting, ConsoleOpened{Kind: Serial, Client: "pid 7"}),
		},
		{
			vmstatus.ConditionConsoleConnected, "True Connected",
			in(vmstatus.StateBooting, ConsoleOpened{Kind: SPICE, Client: "10.0.0.1"}),
		},
		{
			vmstatus.ConditionConsoleConnected, "True Connected",
			in(vmstatus.StateBooting, ConsoleOpened{Kind: VNC, Client: "10.0.0.1"}),
		},
		{
			vmstatus.ConditionConsoleConnected, "False VmStopped",
			in(vmstatus.StateBooting, ConsoleOpened{Kind: VNC, Client: "10.0.0.1"}, Ended{}),
		},

		{vmstatus.ConditionConfigApplied, "False Applying", in(vmstatus.StateInitializing)},
		{vmstatus.ConditionConfigApplied, "False Applying", in(vmstatus.StateBooting, Read{Generation: 2}, Applied(1))},
		{vmstatus.ConditionConfigApplied, "True Applied", in(vmstatus.StateBooting, Read{Generation: 2}, Applied(2))},
		{
			vmstatus.ConditionConfigApplied, "False ConfigInvalid",
			in(vmstatus.StateBooting, Read{Generation: 2, Error: "config.yaml:3:7: …"}, Applied(1)),
		},
		{vmstatus.ConditionConfigApplied, "False NotPossible", in(vmstatus.StateBooting, Read{Generation: 1},
			Applied(1), Problems{{Path: "vm.currentCpus", Message: "no slot"}})},
		{vmstatus.ConditionConfigApplied, "False NotReset", in(vmstatus.StateBooting, Read{Generation: 1}, Applied(1),
			Problems{{Path: "vm.currentCpus"}, {Path: "resetCounter", Message: "the TPM is lost"}, {Path: "vm"}})},
		{vmstatus.ConditionConfigApplied, "True Applied", in(vmstatus.StateBooting, Read{Generation: 1}, Applied(1),
			Faults{vmstatus.ReasonHelperLost, fields("passt")})},

		{vmstatus.ConditionRestartRequired, "False NothingPending", in(vmstatus.StateBooting)},
		{
			vmstatus.ConditionRestartRequired, "True ChangesPending",
			in(vmstatus.StateBooting, Pending{Changes: []Change{{Path: "vm.firmware"}}}),
		},
		{
			vmstatus.ConditionRestartRequired, "False NothingPending",
			in(vmstatus.StateBooting, Pending{Changes: []Change{{Path: "vm.firmware"}}}, Pending{}),
		},

		{vmstatus.ConditionTPMLost, "False NoTPM", in(vmstatus.StateBooting)},
		{vmstatus.ConditionTPMLost, "False TPMPresent", in(vmstatus.StateBooting, TPMWorks)},
		{vmstatus.ConditionTPMLost, "True HelperEnded", in(vmstatus.StateBooting, TPMWorks, TPMGone)},
		{vmstatus.ConditionTPMLost, "False VmStopped", in(vmstatus.StateBooting, TPMGone, Ended{})},
	}
	for _, row := range table {
		s := life(t, row.after...)
		c := s.Condition(row.condition)
		require.Equal(t, row.want, string(c.Status)+" "+string(c.Reason), "%s after %v", row.condition, row.after)
	}
}

// A VM is confined if the kernel confines any of its processes, and the message lists the gaps.
func TestConfined(t *testing.T) {
	t.Parallel()
	booting := Entered{State: vmstatus.StateBooting}
	for want, c := range map[string]*Confinement{
		"True Confined ":              {Landlock: 7, OwnRoot: true},
		"True PartlyConfined no root": {Landlock: 7, Lacks: []string{"no root"}},
		"True Confined no Landlock":   {OwnRoot: true, Lacks: []string{"no Landlock"}},
		"True PartlyConfined a: confines itself; no ports": {
			Landlock: 7, OwnRoot: true, Exempt: []string{"a"}, Lacks: []string{"no ports"},
		},
		"True PartlyConfined the guest reaches the host's loopback addresses: it is old; no root": {
			Landlock: 7, Loopback: "it is old", Lacks: []string{"no root"},
		},
		"False NotConfined no Landlock; no root": {Lacks: []string{"no Landlock", "no root"}},
		"False NotRecorded QEMU was started by an earlier version, which didn't record whether the kernel confines " +
			"it": nil,
	} {
		is := life(t, Confined{c}, booting).Condition(vmstatus.ConditionConfined)
		require.Equal(t, want, fmt.Sprintf("%s %s %s", is.Status, is.Reason, is.Message))
	}
	held := Confined{&Confinement{Landlock: 7}}
	ended := life(t, held, booting, Ended{}).Condition(vmstatus.ConditionConfined)
	require.Equal(t, vmstatus.ReasonVMStopped, ended.Reason)
	starting := life(t, Entered{State: vmstatus.StateStarting}).Condition(vmstatus.ConditionConfined)
	require.Equal(t, vmstatus.False, starting.Status)
	require.Equal(t, vmstatus.ReasonRunnerStarted, starting.Reason)
}

func TestConditionsAreAlwaysAllThere(t *testing.T) {
	t.Parallel()
	s, err := Fold(Status{}, at(0))
	require.NoError(t, err)
	var names []string
	for _, c := range s.Conditions {
		names = append(names, string(c.Type))
	}
	require.Equal(t, "Running Booted Ready VmopAgentConnected UserLoggedIn ConsoleConnected ConfigApplied RestartRequired TPMLost Confined", strings.Join(names, " "))
	require.Equal(t, vmstatus.Unknown, s.Condition("Migrating").Status)
}

func TestATransitionTimeChangesOnlyWithTheAnswer(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooting}, Entered{State: vmstatus.StateBooted}, Read{Generation: 7},
		Applied(7), Entered{State: vmstatus.StateTerminating})
	running := s.Condition(vmstatus.ConditionRunning)
	require.Equal(t, vmstatus.ReasonVMTerminating, running.Reason)
	require.Equal(t, int64(7), running.ObservedGeneration)
	require.Equal(t, at(0), running.LastTransitionTime)
	require.Equal(t, at(4), s.Condition(vmstatus.ConditionBooted).LastTransitionTime)
}

func TestAnEmulatedGuestIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	const why, said = "open /dev/kvm: no such file or directory",
		"without KVM the guest is slow; vm.accelerator: auto is tcg here, because "
	s := life(t, Described{Emulated: why}, Entered{State: vmstatus.StateStarting})
	require.Empty(t, s.Condition(vmstatus.ConditionRunning).Message, "nothing runs yet")
	s = life(t, Described{Emulated: why}, Entered{State: vmstatus.StateStarting}, Entered{State: vmstatus.StateBooting})
	require.Equal(t, said+why, s.Condition(vmstatus.ConditionRunning).Message)
	require.Empty(t, s.Condition(vmstatus.ConditionReady).Message)
	s = life(t, Described{Emulated: why}, Entered{State: vmstatus.StateBooting},
		Entered{State: vmstatus.StateTerminating, Message: "interrupted"})
	require.Equal(t, "interrupted; "+said+why, s.Condition(vmstatus.ConditionRunning).Message)
	s = life(t, Described{Emulated: why}, Entered{State: vmstatus.StateBooting}, Ended{Cause: "asked"})
	require.NotContains(t, s.Condition(vmstatus.ConditionRunning).Message, "KVM")
}

func TestMessagesNameWhatTheyMean(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooted}, Read{Generation: 3}, Applied(2),
		Read{Generation: 4, Error: "config.yaml:3:7: unknown field"},
		Pending{Changes: []Change{{Path: "vm.firmware"}, {Path: "vm.useTpm"}}},
		ConsoleOpened{Kind: SPICE, Client: "10.0.0.1"},
		WantedUser("alice"),
		VmopAgent(true), RunState("watchdog"))
	require.Equal(t, "vm.firmware, vm.useTpm", s.Condition(vmstatus.ConditionRestartRequired).Message)
	require.Equal(t, "config.yaml:3:7: unknown field", s.Condition(vmstatus.ConditionConfigApplied).Message)
	require.Equal(t, int64(4), s.Condition(vmstatus.ConditionConfigApplied).ObservedGeneration,
		"it speaks of the newest")
	require.Equal(t, int64(2), s.Condition(vmstatus.ConditionReady).ObservedGeneration,
		"the others of the one in force")
	require.Equal(t, "spice 10.0.0.1", s.Condition(vmstatus.ConditionConsoleConnected).Message)
	require.Equal(t, "waiting for alice", s.Condition(vmstatus.ConditionUserLoggedIn).Message)
	require.Equal(t, "QEMU's machine is in state watchdog", s.Condition(vmstatus.ConditionReady).Message)
	s, err := Fold(s, at(20), Faults{vmstatus.ReasonIOError, []string{"the disk is full"}}, RunState("io-error"),
		Faults{vmstatus.ReasonTPMLost, []string{"swtpm ended"}}, TPMGone)
	require.NoError(t, err)
	require.Equal(t, "the disk is full", s.Condition(vmstatus.ConditionReady).Message)
	require.Equal(t, "swtpm ended", s.Condition(vmstatus.ConditionTPMLost).Message)
}

// Warnings about options are in the message of a condition that is True, because the options work.
func TestWarningsAreInAMessage(t *testing.T) {
	t.Parallel()
	warned := Described{Warnings: []string{"vm.options.a is deprecated: use b", "vm.options.c is a former name: use d"}}
	s := life(t, warned, Entered{State: vmstatus.StateBooting}, Read{Generation: 1}, Applied(1))
	c := s.Condition(vmstatus.ConditionConfigApplied)
	require.Equal(t, vmstatus.True, c.Status)
	require.Equal(t, "vm.options.a is deprecated: use b; vm.options.c is a former name: use d", c.Message)
}
