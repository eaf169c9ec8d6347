package machine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// A valid configuration takes effect, and an invalid configuration leaves the previous one active.
func TestConfigurationsAreReadAndApplied(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withBalloon)
	require.Equal(t, status.Configuration{Generation: 1, Applied: 1, Compared: 1}, k.known.Configuration)
	wish := k.state.wanted.wish
	wish.Desired.RAM, wish.User = 64*mib, "alice"
	k.state.Configured(Reading{Wish: wish, Resource: "web"})
	k.does(`balloon {"value":67108864}`)
	require.Equal(t, status.Configuration{Generation: 2, Applied: 2, Compared: 1, Resource: "web"},
		k.known.Configuration)
	require.Equal(t, "alice", k.known.WantedUser)
	require.Equal(t, int64(2), k.saved.Generation)
	k.logged("configuration read")
	k.isDone()
	k.state.Configured(Reading{Err: "vm: no"})
	k.nextStep()
	require.Equal(t, status.Configuration{
		Generation: 3, Applied: 2, Compared: 1, Resource: "web", Error: "vm: no",
	}, k.known.Configuration)
	require.Equal(t, 64*mib, int(k.state.wanted.wish.Desired.RAM))
	k.state.AwaitRestart(status.Pending{}, nil)
	k.nextStep()
	require.Equal(t, int64(1), k.known.Configuration.Compared, "it is about the one before")
	k.state.Configured(Reading{Wish: wish, Generation: 17})
	k.nextStep()
	require.Equal(t, int64(1), k.known.Configuration.Compared, "it is not compared yet")
	k.state.AwaitRestart(status.Pending{}, nil)
	k.nextStep()
	require.Equal(t, int64(17), k.known.Configuration.Compared)
	require.Equal(t, int64(17), k.known.Configuration.Applied)
}

// A requested reset is recorded before the command is sent, so that the next runner does not reset the VM again.
func TestAResetIsRecordedFirst(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	one, two := int64(1), int64(2)
	wish := k.state.wanted.wish
	wish.Desired.ResetCounter = &one
	k.state.Configured(Reading{Wish: wish})
	k.does()
	wish.Desired.ResetCounter = &two
	k.state.Configured(Reading{Wish: wish})
	var order []string
	for _, action := range k.state.Next(k.now).Actions {
		switch a := action.(type) {
		case Save:
			if a.Progress.ResetCounter != nil && *a.Progress.ResetCounter == two {
				order = append(order, "saved")
			}
		case Send:
			order = append(order, a.Command.Execute)
		}
	}
	require.Equal(t, []string{"saved", "system_reset"}, order)
}

// Pending changes are shown in the status until they change. If the type fails, they are unknown.
func TestWhatAwaitsARestart(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.AwaitRestart(status.Pending{Changes: []status.Change{{Path: "vm.firmware"}}}, nil)
	k.does()
	require.Len(t, k.known.RestartAwaitingChanges, 1)
	k.logged("changes need a restart of the VM")
	k.state.AwaitRestart(status.Pending{}, errors.New("own.star:1: no"))
	k.does()
	require.Len(t, k.known.RestartAwaitingChanges, 1, "what was known before")
	require.Equal(t, "vmType", k.known.Problems[0].Path)
	require.Contains(t, k.known.Problems[0].Message, "own.star:1: no")
	k.state.AwaitRestart(status.Pending{}, nil)
	k.does()
	require.Empty(t, k.known.RestartAwaitingChanges)
	require.Empty(t, k.known.Problems)
	k.logged("no change needs a restart")
}
