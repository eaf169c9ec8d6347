package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// FuzzFold passes any updates in any order to a status. Two bytes encode the kind and the content of an update.
func FuzzFold(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 1, 2, 2, 9, 3, 0, 4, 2, 5, 1, 1, 3, 6, 1, 7, 1, 8, 1, 9, 1, 10, 1, 1, 2, 1, 4, 17, 0})
	f.Add([]byte{17, 1, 1, 2, 12, 3, 16, 1, 6, 1})
	f.Add([]byte{1, 6, 3, 3, 13, 255, 14, 1, 14, 3, 15, 2, 15, 0, 16, 2, 18, 1})
	f.Add([]byte{11, 0, 11, 1, 12, 0, 11, 2, 12, 2, 12, 7, 1, 4})
	f.Fuzz(func(t *testing.T, script []byte) {
		var s Status
		for i := 0; i+1 < len(script) && i < 200; i += 2 {
			u, now := news(script[i], script[i+1]), at(float64(i/2))
			before := snapshot(t, s)
			next, err := Fold(s, now, u)
			require.Equal(t, before, snapshot(t, s), "a snapshot has changed")
			requireSane(t, s, next, u, now, err)
			s = next
		}
	})
}

// news returns an update of any kind.
func news(kind, about byte) Update {
	n := int(about)
	texts := []string{"", "alice", "bob", "\x1b[31m\n\xff"}
	text := texts[n%len(texts)]
	kinds := []Update{
		Described{Name: text, UUID: "u", Runner: Runner{PID: n}},
		Entered{
			State: []vmstatus.State{
				vmstatus.StateInitializing, vmstatus.StateStarting, vmstatus.StateBooting,
				vmstatus.StateBooted, vmstatus.StateTerminating, vmstatus.StateStopped, "", "Nonsense",
			}[n%8],
			Message: text,
		},
		Process{PID: n, Version: text},
		RunState([]string{"running", "paused", "io-error", "guest-panicked", "shutdown", ""}[n%6]),
		CPUs(n), RAM(int64(n) << 20),
		GuestOS{[]*OSInfo{nil, {ID: text}}[n%2]},
		Interfaces(make([]Interface, n%3)),
		VmopAgent(n%2 == 1), WantedUser(text), LoggedIn(text),
		ConsoleOpened{Kind: []string{SPICE, VNC, Serial}[n%3], Client: text},
		ConsoleClosed{Kind: []string{SPICE, VNC, Serial}[n%3], Client: text},
		PasswordSerial(n - 1),
		Read{Generation: int64(n % 4), Error: text},
		Applied(n % 4),
		Pending{Changes: make([]Change, n%3)},
		Ended{Cause: vmstatus.Cause(text), ExitCode: n},
		Problems(make([]Problem, n%3)), Began(at(float64(-n))),
		Faults{
			[]vmstatus.Reason{vmstatus.ReasonIOError, vmstatus.ReasonGuestPanicked, vmstatus.ReasonHelperLost}[n%3],
			fields(text),
		},
		[]TPM{"", TPMWorks, TPMGone}[n%3],
		Answered{},
		WasReset{},
		LoginFailure(text),
	}
	return kinds[int(kind)%len(kinds)]
}

func snapshot(t *testing.T, s Status) string {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	return string(text)
}

// requireSane checks the invariants of every step.
func requireSane(t *testing.T, before, after Status, u Update, now time.Time, refused error) {
	t.Helper()
	require.True(t, after.State.Known(), "state %q", after.State)
	require.True(t, before.State.CanEnter(after.State), "from %s to %s", before.State, after.State)
	require.NotEmpty(t, after.Reason)
	if before.State != after.State {
		require.Equal(t, now, after.Since)
	} else {
		require.Equal(t, before.Since, after.Since, "the state was entered then")
	}
	if refused != nil {
		require.ErrorAs(t, refused, new(*TransitionError))
	}
	if before.Started != nil {
		require.NotNil(t, after.Started)
	}
	if after.State == vmstatus.StateStopped {
		require.Zero(t, after.CPUs+int(after.RAM)+after.QEMU.PID)
		require.Nil(t, after.Guest)
		require.False(t, after.VmopAgent)
		require.Empty(t, after.Consoles)
		require.Empty(t, after.LoggedInUser+after.LoginFailure)
	}
	requireConditions(t, before, after, now)
	same, err := Fold(after, now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, snapshot(t, after), snapshot(t, same), "no news changes nothing, after %#v", u)
}

// requireConditions requires that all conditions are present, in order, consistent with the status, and that their
// times change together with their values.
func requireConditions(t *testing.T, before, after Status, now time.Time) {
	t.Helper()
	require.Len(t, after.Conditions, len(deriveConditions(after)))
	for i, c := range after.Conditions {
		require.Contains(t, []vmstatus.ConditionStatus{vmstatus.True, vmstatus.False}, c.Status)
		require.NotEmpty(t, c.Reason, c.Type)
		was := before.Condition(c.Type)
		if was.Status == c.Status {
			require.Equal(t, was.LastTransitionTime, c.LastTransitionTime, "%s did not change", c.Type)
		} else {
			require.Equal(t, now, c.LastTransitionTime, c.Type)
		}
		if before.Conditions != nil {
			require.Equal(t, before.Conditions[i].Type, c.Type)
		}
	}
	is := func(t vmstatus.ConditionType) bool { return after.Condition(t).Status == vmstatus.True }
	require.Equal(t, after.State == vmstatus.StateBooted, is(vmstatus.ConditionBooted))
	require.False(t, is(vmstatus.ConditionReady) && (!is(vmstatus.ConditionRunning) || !after.State.Active()),
		"ready, but not running")
	require.False(t, is(vmstatus.ConditionReady) && after.QEMU.RunState != "running" && after.QEMU.RunState != "",
		"ready while %s", after.QEMU.RunState)
	require.False(t, is(vmstatus.ConditionUserLoggedIn) && (!is(vmstatus.ConditionVmopAgent) ||
		after.LoggedInUser != after.WantedUser), "who says that the user is logged in?")
	require.Equal(t, len(after.RestartAwaitingChanges) > 0, is(vmstatus.ConditionRestartRequired))
	require.False(t, is(vmstatus.ConditionConfigApplied) &&
		(after.Configuration.Error != "" || after.Configuration.Applied < after.Configuration.Generation))
	for _, c := range after.Conditions {
		require.False(t, after.State == vmstatus.StateStopped && c.Status == vmstatus.True, "%s of a stopped VM",
			c.Type)
	}
}
