package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// at returns a time in seconds of a test's clock.
func at(second float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(second * float64(time.Second)))
}

func fields(s string) []string { return strings.Fields(s) }

// life folds valid updates, one per second.
func life(t *testing.T, updates ...Update) Status {
	t.Helper()
	var s Status
	for i, u := range updates {
		var err error
		s, err = Fold(s, at(float64(i)), u)
		require.NoError(t, err)
	}
	return s
}

func TestAStateIsEnteredOnce(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateStarting}, Entered{State: vmstatus.StateBooting},
		Entered{State: vmstatus.StateBooting, Message: "still"})
	require.Equal(t, at(1), s.Since)
	require.Equal(t, "still", s.Message)
	require.Equal(t, at(1), *s.Started)
}

func TestALateUpdateIsWithoutEffect(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooting}, Entered{State: vmstatus.StateTerminating, Message: "signal"})
	after, err := Fold(s, at(9), Entered{State: vmstatus.StateBooted}, CPUs(3))
	require.EqualError(t, err, "enter state Booted from Terminating: the states don't allow it")
	require.Equal(t, vmstatus.StateTerminating, after.State)
	require.Equal(t, "signal", after.Message)
	require.Equal(t, 3, after.CPUs, "the other updates count")
}

func TestAResetGuestBootsAgain(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooting}, Entered{State: vmstatus.StateBooted},
		Entered{State: vmstatus.StateBooting, Reason: vmstatus.ReasonVMReset})
	require.Equal(t, vmstatus.ReasonVMReset, s.Reason)
	require.Equal(t, at(0), *s.Started, "the VM has run all the time")
	require.Equal(t, vmstatus.False, s.Condition(vmstatus.ConditionBooted).Status)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionRunning).Status)
}

func TestAStoppedVMHasNothing(t *testing.T) {
	t.Parallel()
	s := life(t,
		Entered{State: vmstatus.StateBooted}, Process{PID: 42, Version: "7.2.22"}, RunState("running"), CPUs(2),
		RAM(1<<30),
		GuestOS{&OSInfo{ID: "debian"}}, Interfaces{{Name: "eth0"}}, VmopAgent(true), WantedUser("alice"),
		LoggedIn("alice"),
		ConsoleOpened{Kind: VNC, Client: "pid 7"},
		Pending{Changes: []Change{{Path: "vm.firmware", Operation: "replace"}}},
		Ended{Cause: "guest shutdown", Reason: "guest-shutdown", Message: "the guest has powered off"},
	)
	require.Equal(t, vmstatus.StateStopped, s.State)
	require.Equal(t, "the guest has powered off", s.Message)
	require.Equal(t, "guest-shutdown", s.Outcome.Reason)
	require.Equal(t, QEMU{Version: "7.2.22"}, s.QEMU)
	require.Zero(t, s.CPUs)
	require.Zero(t, s.RAM)
	require.Nil(t, s.Guest)
	require.Empty(t, s.LoggedInUser)
	require.Empty(t, s.Consoles)
	require.Empty(t, s.RestartAwaitingChanges)
	for _, c := range s.Conditions {
		require.Equal(t, vmstatus.False, c.Status, c.Type)
		require.Equal(t, vmstatus.ReasonVMStopped, c.Reason, c.Type)
	}
}

func TestAVMThatNeverRan(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateStarting}, Ended{Message: "swtpm is not there", ExitCode: 1})
	require.Equal(t, vmstatus.ReasonStartFailed, s.Reason)
	require.Equal(t, "swtpm is not there", s.Condition(vmstatus.ConditionRunning).Message)
}

func TestAgentsAndUsers(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooted}, VmopAgent(true), WantedUser("alice"), LoggedIn("alice"))
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionUserLoggedIn).Status)
	gone, _ := Fold(s, at(5), VmopAgent(false))
	require.Empty(t, gone.LoggedInUser, "without the agent it is unknown")
	require.Equal(t, vmstatus.ReasonVmopAgentDisconnected, gone.Condition(vmstatus.ConditionUserLoggedIn).Reason)
	silent, _ := Fold(s, at(5), GuestOS{nil}, Interfaces(nil))
	require.Nil(t, silent.Guest)
}

func TestConsolesComeAndGo(t *testing.T) {
	t.Parallel()
	s := life(t,
		Entered{State: vmstatus.StateBooting}, ConsoleOpened{Kind: VNC, Client: "a"},
		ConsoleOpened{Kind: Serial, Client: "b"},
		ConsoleOpened{Kind: VNC, Client: "a"},
		ConsoleClosed{Kind: VNC, Client: "a"}, ConsoleClosed{Kind: SPICE, Client: "never came"},
	)
	require.Equal(t, []Console{
		{Kind: Serial, Client: "b", Since: at(2)}, {Kind: VNC, Client: "a", Since: at(3)},
	}, s.Consoles)
}

// Later updates leave earlier snapshots unchanged.
func TestFoldLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	before := life(t, Entered{State: vmstatus.StateBooting}, ConsoleOpened{Kind: VNC, Client: "a"},
		ConsoleOpened{Kind: VNC, Client: "b"},
		GuestOS{&OSInfo{ID: "debian"}})
	text := func() string {
		b, err := json.Marshal(before)
		require.NoError(t, err)
		return string(b)
	}
	was := text()
	_, err := Fold(before, at(9), ConsoleClosed{Kind: VNC, Client: "a"},
		ConsoleOpened{Kind: VNC, Client: "c"}, Interfaces{{Name: "eth0"}},
		Entered{State: vmstatus.StateBooted}, Ended{})
	require.NoError(t, err)
	require.Equal(t, was, text())
}

func TestJSON(t *testing.T) {
	t.Parallel()
	s := life(t,
		Described{
			Name: "web", UUID: "6e5b", VMType: "standard",
			Runner: Runner{Version: "1.0", PID: 7, Started: at(0)},
		},
		Entered{State: vmstatus.StateBooting}, Process{PID: 42, Version: "7.2.22"}, RunState("paused"), CPUs(2),
		RAM(1<<30),
		Read{Generation: 2}, Applied(2),
	)
	s.Conditions = s.Conditions[:1]
	b, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	require.Equal(t, `{
  "name": "web",
  "uuid": "6e5b",
  "vmType": "standard",
  "state": "Booting",
  "reason": "VmStarted",
  "since": "2026-01-02T03:04:06Z",
  "started": "2026-01-02T03:04:06Z",
  "runner": {
    "version": "1.0",
    "pid": 7,
    "started": "2026-01-02T03:04:05Z"
  },
  "qemu": {
    "version": "7.2.22",
    "pid": 42,
    "runState": "paused"
  },
  "cpus": 2,
  "ram": 1073741824,
  "vmopAgent": false,
  "displayPasswordSerial": 0,
  "configuration": {
    "generation": 2,
    "applied": 2,
    "compared": 0
  },
  "conditions": [
    {
      "type": "Running",
      "status": "True",
      "observedGeneration": 2,
      "lastTransitionTime": "2026-01-02T03:04:06Z",
      "reason": "VmStarted",
      "message": ""
    }
  ]
}`, string(b))
}

// Problems with wishes and faults come from different sources and don't replace each other.
func TestProblemsOfEachKindAreTheirOwn(t *testing.T) {
	t.Parallel()
	wish := Problem{Path: "vm.currentCpus", Message: "no slot"}
	s := life(t, Entered{State: vmstatus.StateBooted}, Faults{vmstatus.ReasonIOError, fields("disk0 disk1")},
		Problems{wish}, Faults{vmstatus.ReasonHelperLost, fields("passt")},
		Faults{vmstatus.ReasonIOError, fields("disk1")})
	require.Equal(t, []Problem{
		wish,
		{Reason: vmstatus.ReasonHelperLost, Message: "passt"},
		{Reason: vmstatus.ReasonIOError, Message: "disk1"},
	}, s.Problems)
	before := s.Problems
	s, err := Fold(s, at(9), Problems(nil), Faults{vmstatus.ReasonIOError, nil})
	require.NoError(t, err)
	require.Equal(t, []Problem{{Reason: vmstatus.ReasonHelperLost, Message: "passt"}}, s.Problems)
	require.Equal(t, wish, before[0], "a snapshot stays")
	s, err = Fold(s, at(10), Problems{wish}, Ended{})
	require.NoError(t, err)
	require.Equal(t, []Problem{wish}, s.Problems, "the machine is no more")
}

// A VM is not ready while QEMU does not answer, until it answers or another QEMU runs.
func TestAQEMUThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := life(t, Entered{State: vmstatus.StateBooting}, Unresponsive(true))
	require.Equal(t, vmstatus.ReasonUnresponsive, s.Condition(vmstatus.ConditionReady).Reason)
	s, err := Fold(s, at(9), Unresponsive(false))
	require.NoError(t, err)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionReady).Status)
}

// A running QEMU keeps its version and run state, and an ended QEMU has no run state.
func TestTheRunStateGoesWithTheProcess(t *testing.T) {
	t.Parallel()
	s := life(t, Process{PID: 7, Version: "7.2"}, RunState("running"), Process{PID: 7})
	require.Equal(t, "running 7.2", s.QEMU.RunState+" "+s.QEMU.Version)
	require.Empty(t, life(t, Process{PID: 7}, RunState("running"), Process{}).QEMU.RunState)
}
