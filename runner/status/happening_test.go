package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// A tracker keeps the most recent happenings in order, including connecting and disconnecting viewers.
func TestHistory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tracker := NewTracker(func() time.Time { return now }, Described{Name: "web"})
	alice := ConsoleOpened{Kind: VNC, User: "alice", Mode: ModeType}
	bob := ConsoleOpened{Kind: Serial, Client: "pid 7", Mode: ModeWatch}
	for _, update := range []Update{
		Entered{State: vmstatus.StateStarting},
		Entered{State: vmstatus.StateBooting},
		alice, bob,
		ConsoleClosed(alice), RAM(1 << 20),
	} {
		now = now.Add(time.Second)
		require.NoError(t, tracker.Update(update))
	}
	var told []string
	for _, h := range tracker.History() {
		told = append(told, fmt.Sprintf("%d %s: %s", h.At.Unix(), h.Reason, h.Note))
		require.False(t, h.Warning)
	}
	require.Equal(t, []string{
		"1000 RunnerStarted: the runner is preparing the machine", "1002 VmStarted: the guest is running",
		"1003 ConsoleConnected: vnc alice", "1004 ConsoleConnected: serial pid 7, watching",
		"1005 ConsoleDisconnected: vnc alice",
	}, told)

	for i := range 2 * mostHistory {
		require.NoError(t, tracker.Update(ConsoleOpened{Kind: VNC, Client: fmt.Sprint(i)}))
	}
	list := tracker.History()
	require.Len(t, list, mostHistory)
	require.Equal(t, fmt.Sprint("vnc ", 2*mostHistory-1), list[mostHistory-1].Note)
}

// The condition lists a limited number of viewers, starting with the viewer that types on the screen, in a form that no
// name can forge.
func TestViewersOfTheCondition(t *testing.T) {
	t.Parallel()
	watcher := func(name string) Console { return Console{Kind: VNC, User: name, Mode: ModeWatch} }
	few := []Console{
		watcher("bob"),
		{Kind: Serial, User: "carol", Mode: ModeType},
		{Kind: VNC, User: "eve; vnc admin\nwatching", Mode: ModeType},
	}
	s := Status{State: vmstatus.StateBooted, Consoles: few}
	require.Equal(t, "vnc eve, vnc admin watching; serial carol; watching vnc bob", consoleConnected(s).Message)
	s.Consoles = few[1:2]
	require.Equal(t, vmstatus.False, consoleConnected(s).Status, "the condition is about the screen")
	require.Equal(t, "serial carol", consoleConnected(s).Message)
	for i := range 2 * mostNamed {
		s.Consoles = append(s.Consoles, watcher(fmt.Sprint("w", i)))
	}
	message := consoleConnected(s).Message
	require.True(t, strings.HasPrefix(message, "serial carol; watching vnc w0; "), message)
	require.True(t, strings.HasSuffix(message, fmt.Sprintf("; and %d more", mostNamed+1)), message)
}

// A warning is sent for an end with an error and for a failed start.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  vmstatus.Reason
		outcome *Outcome
		warning bool
	}{
		"another state":      {"Other", nil, false},
		"an end":             {"Other", &Outcome{}, false},
		"an end by an error": {"Other", &Outcome{ExitCode: 1}, true},
		"a failed start":     {vmstatus.ReasonStartFailed, nil, true},
	} {
		after := Status{Reason: c.reason, Outcome: c.outcome}
		all := Happenings(Status{}, after, time.Unix(0, 0))
		require.Len(t, all, 1, name)
		require.Equal(t, c.warning, all[0].Warning, name)
		require.Empty(t, Happenings(after, after, time.Unix(0, 0)), name)
	}
}
