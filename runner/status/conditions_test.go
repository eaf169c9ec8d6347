package status

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which condition is true when, and the reason it gives.
func TestConditions(t *testing.T) {
	t.Parallel()
	in := func(s State, more ...Update) []Update { return append([]Update{Entered{State: s}}, more...) }
	ran := func(more ...Update) []Update { return in(Booted, more...) }
	table := []struct {
		condition ConditionType
		want      string // status, reason
		after     []Update
	}{
		{Running, "False RunnerStarted", in(Initializing)},
		{Running, "False RunnerStarted", in(Starting)},
		{Running, "True VmStarted", in(Booting)},
		{Running, "True VmBooted", in(Booted)},
		{Running, "True VmTerminating", ran(Entered{State: Terminating})},
		{Running, "False VmTerminating", in(Terminating)}, // before the guest ran
		{Running, "False VmStopped", ran(Ended{})},
		{Running, "False StartFailed", in(Starting, Ended{})},
		{Running, "True RunnerRestarted", in(Initializing, Began(at(0)), Entered{State: Booting, Reason: RunnerRestarted})},

		{IsBooted, "False VmStarted", in(Booting)},
		{IsBooted, "True VmBooted", in(Booted)},
		{IsBooted, "False VmReset", ran(Entered{State: Booting, Reason: VMReset})},
		{IsBooted, "False VmTerminating", ran(Entered{State: Terminating})},

		{Ready, "False RunnerStarted", in(Starting)},
		{Ready, "True VmStarted", in(Booting)},
		{Ready, "True VmBooted", ran(RunState("running"))},
		{Ready, "False Paused", ran(RunState("paused"))},
		{Ready, "False IOError", ran(RunState("io-error"))},
		{Ready, "False GuestPanicked", ran(RunState("guest-panicked"))},
		{Ready, "False MachineHeld", ran(RunState("internal-error"))},
		{Ready, "False GuestPanicked", ran(RunState("running"), Faults{GuestPanicked, fields("panic")})},
		{Ready, "True VmBooted", ran(RunState("running"), Faults{GuestPanicked, fields("panic")}, Faults{GuestPanicked, nil})},
		{Ready, "False VmTerminating", ran(Entered{State: Terminating})},

		{VmopAgentConnected, "False RunnerStarted", in(Starting, VmopAgent(true))},
		{VmopAgentConnected, "False VmopAgentDisconnected", in(Booting)},
		{VmopAgentConnected, "True VmopAgentStarted", ran(VmopAgent(true))},
		{VmopAgentConnected, "False VmopAgentDisconnected", ran(VmopAgent(true), VmopAgent(false))},
		{VmopAgentConnected, "False VmStopped", ran(VmopAgent(true), Ended{})},

		{UserLoggedIn, "False NotRequested", ran(VmopAgent(true))},
		{UserLoggedIn, "False VmopAgentDisconnected", ran(WantedUser("alice"))},
		{UserLoggedIn, "False Processing", ran(WantedUser("alice"), VmopAgent(true))},
		{UserLoggedIn, "False Processing", ran(WantedUser("alice"), VmopAgent(true), LoggedIn("bob"))},
		{UserLoggedIn, "False LoginFailed", ran(WantedUser("root"), VmopAgent(true), LoginFailure("504 no"))},
		{UserLoggedIn, "False NotRequested", ran(VmopAgent(true), LoginFailure("500 cannot log out"))},
		{UserLoggedIn, "False VmopAgentDisconnected", ran(WantedUser("root"), VmopAgent(true), LoginFailure("504 no"), VmopAgent(false))},
		{UserLoggedIn, "True LoggedIn", ran(WantedUser("alice"), VmopAgent(true), LoggedIn("alice"))},
		{UserLoggedIn, "False VmStopped", ran(WantedUser("alice"), VmopAgent(true), LoggedIn("alice"), Ended{})},

		{ConsoleConnected, "False Disconnected", in(Booting)},
		{ConsoleConnected, "False Disconnected", in(Booting, ConsoleOpened{Serial, "pid 7"})},
		{ConsoleConnected, "True Connected", in(Booting, ConsoleOpened{SPICE, "10.0.0.1"})},
		{ConsoleConnected, "True Connected", in(Booting, ConsoleOpened{VNC, "10.0.0.1"})},
		{ConsoleConnected, "False VmStopped", in(Booting, ConsoleOpened{VNC, "10.0.0.1"}, Ended{})},

		{ConfigApplied, "False Applying", in(Initializing)},
		{ConfigApplied, "False Applying", in(Booting, Read{Generation: 2}, Applied(1))},
		{ConfigApplied, "True Applied", in(Booting, Read{Generation: 2}, Applied(2))},
		{ConfigApplied, "False ConfigInvalid", in(Booting, Read{Generation: 2, Error: "config.yaml:3:7: …"}, Applied(1))},
		{ConfigApplied, "False NotPossible", in(Booting, Read{Generation: 1}, Applied(1), Problems{{Path: "vm.currentCpus", Message: "no slot"}})},
		{ConfigApplied, "True Applied", in(Booting, Read{Generation: 1}, Applied(1), Faults{HelperLost, fields("passt")})},

		{RestartRequired, "False NothingPending", in(Booting)},
		{RestartRequired, "True ChangesPending", in(Booting, Pending{{Path: "vm.firmware"}})},
		{RestartRequired, "False NothingPending", in(Booting, Pending{{Path: "vm.firmware"}}, Pending(nil))},

		{TPMLost, "False NoTPM", in(Booting)},
		{TPMLost, "False TPMPresent", in(Booting, TPMWorks)},
		{TPMLost, "True HelperEnded", in(Booting, TPMWorks, TPMGone)},
		{TPMLost, "False VmStopped", in(Booting, TPMGone, Ended{})},
	}
	for _, row := range table {
		s := life(t, row.after...)
		c := s.Condition(row.condition)
		require.Equal(t, row.want, string(c.Status)+" "+string(c.Reason), "%s after %v", row.condition, row.after)
	}
}

func TestConditionsAreAlwaysAllThere(t *testing.T) {
	t.Parallel()
	s, err := Fold(Status{}, at(0))
	require.NoError(t, err)
	var names []string
	for _, c := range s.Conditions {
		names = append(names, string(c.Type))
	}
	require.Equal(t, "Running Booted Ready VmopAgentConnected UserLoggedIn ConsoleConnected ConfigApplied RestartRequired TPMLost", strings.Join(names, " "))
	require.Equal(t, Unknown, s.Condition("Migrating").Status)
}

func TestATransitionTimeChangesOnlyWithTheAnswer(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: Booting}, Entered{State: Booted}, Read{Generation: 7}, Applied(7), Entered{State: Terminating})
	running := s.Condition(Running)
	require.Equal(t, VMTerminating, running.Reason)
	require.Equal(t, int64(7), running.ObservedGeneration)
	require.Equal(t, at(0), running.LastTransitionTime)
	require.Equal(t, at(4), s.Condition(IsBooted).LastTransitionTime)
}

func TestAnEmulatedGuestIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	const why, said = "open /dev/kvm: no such file or directory", "without KVM the guest is slow; vm.accelerator: auto is tcg here, because "
	s := life(t, Described{Emulated: why}, Entered{State: Starting})
	require.Empty(t, s.Condition(Running).Message, "nothing runs yet")
	s = life(t, Described{Emulated: why}, Entered{State: Starting}, Entered{State: Booting})
	require.Equal(t, said+why, s.Condition(Running).Message)
	require.Empty(t, s.Condition(Ready).Message)
	s = life(t, Described{Emulated: why}, Entered{State: Booting}, Entered{State: Terminating, Message: "interrupted"})
	require.Equal(t, "interrupted; "+said+why, s.Condition(Running).Message)
	s = life(t, Described{Emulated: why}, Entered{State: Booting}, Ended{Cause: "asked"})
	require.NotContains(t, s.Condition(Running).Message, "KVM")
}

func TestMessagesNameWhatTheyMean(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: Booted}, Read{Generation: 3}, Applied(2), Read{Generation: 4, Error: "config.yaml:3:7: unknown field"},
		Pending{{Path: "vm.firmware"}, {Path: "vm.useTpm"}}, ConsoleOpened{SPICE, "10.0.0.1"}, WantedUser("alice"), VmopAgent(true), RunState("watchdog"))
	require.Equal(t, "vm.firmware, vm.useTpm", s.Condition(RestartRequired).Message)
	require.Equal(t, "config.yaml:3:7: unknown field", s.Condition(ConfigApplied).Message)
	require.Equal(t, int64(4), s.Condition(ConfigApplied).ObservedGeneration, "it speaks of the newest")
	require.Equal(t, int64(2), s.Condition(Ready).ObservedGeneration, "the others of the one in force")
	require.Equal(t, "spice 10.0.0.1", s.Condition(ConsoleConnected).Message)
	require.Equal(t, "waiting for alice", s.Condition(UserLoggedIn).Message)
	require.Equal(t, "QEMU's machine is in state watchdog", s.Condition(Ready).Message)
	s, err := Fold(s, at(20), Faults{IOError, []string{"the disk is full"}}, RunState("io-error"), Faults{Reason(TPMLost), []string{"swtpm ended"}}, TPMGone)
	require.NoError(t, err)
	require.Equal(t, "the disk is full", s.Condition(Ready).Message)
	require.Equal(t, "swtpm ended", s.Condition(TPMLost).Message)
}
