package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/status"
)

var errSilent = errors.New("no reply")

// listening returns a running guest with a listening agent.
func listening(t *testing.T) *talk {
	t.Helper()
	k := newTalk(t, withAgent)
	k.event("VSERPORT_CHANGE", `{"id": "port0", "open": true}`)
	k.does("SetPort guestAgent true false")
	return k
}

// freezes requests a freeze for 10 s.
func freezes(t *testing.T) *talk {
	t.Helper()
	k := listening(t)
	k.state.Freeze(5, 10*time.Second, k.now)
	k.does("FreezeGuest 10s")
	require.NotNil(t, k.saved.Frozen, "the next runner knows it before the agent does")
	require.Equal(t, status.Freezing, k.known.Frozen.State)
	return k
}

// frozen returns a guest that its agent has frozen.
func frozen(t *testing.T) *talk {
	t.Helper()
	k := freezes(t)
	k.state.GuestFrozen(2, true, nil, k.now)
	k.does("answer 5")
	require.Equal(t, status.FSFrozen, k.known.Frozen.State)
	require.Equal(t, 2, k.known.Frozen.FileSystems)
	return k
}

// isThawed requires that no freeze is recorded or shown.
func (k *talk) isThawed(t *testing.T) {
	t.Helper()
	require.Nil(t, k.known.Frozen)
	require.Nil(t, k.saved.Frozen)
	require.Nil(t, k.state.Progress().Frozen)
}

// A guest is thawed when its time is over, and the request is repeated until the agent answers.
func TestAFrozenGuestIsThawed(t *testing.T) {
	t.Parallel()
	k := frozen(t)
	since := k.known.Frozen.Since
	require.Equal(t, since.Add(10*time.Second), k.known.Frozen.Until)
	k.passes(10*time.Second - 1)
	k.answersAll() // other requests recur
	require.NotContains(t, k.other, "ThawGuest 5s")
	k.other = nil
	k.waits(1)
	k.passes(1)
	k.does("ThawGuest 5s")
	require.Equal(t, status.Thawing, k.known.Frozen.State)
	for _, pause := range []time.Duration{1, 2, 4, 8, 10, 10} {
		k.state.GuestThawed(0, errSilent, k.now)
		k.passes(pause*time.Second - 1)
		k.answersAll()
		require.NotContains(t, k.other, "ThawGuest 5s")
		k.other = nil
		k.waits(1)
		require.Equal(t, "no reply", k.known.Frozen.Message)
		require.Equal(t, since, k.known.Frozen.Since)
		require.NotNil(t, k.saved.Frozen)
		k.passes(1)
		k.does("ThawGuest 5s")
	}
	k.state.GuestThawed(2, nil, k.now)
	k.does()
	k.isThawed(t)
	k.state.GuestThawed(2, nil, k.now)
	k.state.GuestFrozen(2, true, nil, k.now) // an unrequested answer has no effect
	k.does()
	k.isThawed(t)
}

// A client can thaw the guest. A client that requests another freeze meanwhile is refused.
func TestAGuestIsThawedForAClient(t *testing.T) {
	t.Parallel()
	k := frozen(t)
	k.state.Freeze(6, time.Second, k.now)
	k.nextStep()
	require.Len(t, k.other, 1)
	require.Contains(t, k.other[0], "answer 6: the guest's file systems are frozen already, since 2023-11-14T22:13:2")
	k.other = nil
	k.state.Thaw(7, k.now)
	k.does("ThawGuest 5s")
	k.state.Thaw(8, k.now)
	k.state.Thaw(9, k.now)
	k.state.Cancel(9, k.now)
	k.state.GuestThawed(2, nil, k.now)
	k.does("answer 7", "answer 8")
	k.isThawed(t)
	k.state.Thaw(10, k.now)
	k.does("answer 10")
	k.state.Freeze(11, time.Second, k.now)
	k.does("FreezeGuest 1s")
}

// The agent's answer to a freeze decides whether the guest is thawed.
func TestWhatIsNotFrozen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count int
		sent  bool
		err   error
		thaws bool
	}{
		"nothing to freeze":       {0, true, nil, true},
		"a failure":               {0, true, &qmp.Error{Class: qmp.GenericError, Desc: "x"}, true},
		"silence":                 {0, true, errSilent, true},
		"it does not know of it":  {0, false, errSilent, false},
		"it doesn't have command": {0, true, &qmp.Error{Class: qmp.CommandNotFound, Desc: "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := freezes(t)
			k.state.GuestFrozen(c.count, c.sent, c.err, k.now)
			if !c.thaws {
				k.does("answer 5")
				k.isThawed(t)
				return
			}
			k.does("answer 5", "ThawGuest 5s")
			k.state.GuestThawed(0, nil, k.now)
			k.does()
			k.isThawed(t)
		})
	}
}

// A disconnected client ends a freeze, and so does a thaw request.
func TestAFreezeIsEnded(t *testing.T) {
	t.Parallel()
	k := freezes(t)
	k.state.Cancel(4, k.now) // another client
	k.does()
	k.state.Cancel(5, k.now)
	k.does("EndFreeze")
	k.state.GuestFrozen(0, true, errSilent, k.now)
	k.does("ThawGuest 5s")

	k = freezes(t)
	k.state.Thaw(6, k.now)
	k.does("EndFreeze")
	k.state.GuestFrozen(2, true, nil, k.now) // it was frozen already
	k.does("answer 5", "ThawGuest 5s")
	k.state.GuestThawed(2, nil, k.now)
	k.does("answer 6")
	k.isThawed(t)
}

// Without an agent that could answer, a freeze is refused immediately.
func TestAGuestThatCannotBeFrozen(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]*talk{
		"no port for a guest agent": newTalk(t), "no guest agent is connected": newTalk(t, withAgent),
	} {
		k.state.Freeze(5, time.Second, k.now)
		k.does("answer 5")
		k.logged(want)
		require.Nil(t, k.known.Frozen)
	}
	k := listening(t)
	k.state.Pause(6, k.now)
	k.does("stop")
	k.isDone()
	k.state.Freeze(5, time.Second, k.now)
	k.does("answer 6", "answer 5")
	k.logged("the VM is paused")

	k = fresh(t, withAgent)
	k.state.Freeze(5, time.Second, k.now)
	k.does("answer 5: the guest does not run yet")
	k = listening(t)
	k.isStopped("enough", true)
	k.state.Freeze(5, time.Second, k.now)
	k.nextStep()
	require.Contains(t, k.other, "answer 5: the VM is being stopped")
}

// The next runner thaws a guest that the earlier runner has frozen, as soon as the agent listens.
func TestTheNextRunnerThaws(t *testing.T) {
	t.Parallel()
	k := found(t, withAgent, func(c *Config) {
		since := time.Unix(1_600_000_000, 0)
		c.Progress.Frozen = &since
	})
	k.state.Adopt(Booting{}, k.now)
	k.nextStep()
	require.Equal(t, status.Thawing, k.known.Frozen.State)
	require.EqualValues(t, 1_600_000_000, k.known.Frozen.Since.Unix())
	require.NotContains(t, k.other, "ThawGuest 5s")
	k.other = nil
	k.event("VSERPORT_CHANGE", `{"id": "port0", "open": true}`)
	k.does("SetPort guestAgent true false", "ThawGuest 5s")
	k.event("RESET", "{}") // the earlier command may still be executed afterwards
	k.does("SetPort guestAgent false false")
	k.state.GuestThawed(0, errSilent, k.now)
	k.passes(time.Hour)
	k.nextStep()
	k.other = nil
	require.NotNil(t, k.known.Frozen)
	k.event("VSERPORT_CHANGE", `{"id": "port0", "open": true}`)
	k.does("SetPort guestAgent true false", "ThawGuest 5s")
	k.state.GuestThawed(1, nil, k.now)
	k.does()
	k.isThawed(t)
}

// After a reset a guest's file systems are not frozen.
func TestAFrozenGuestIsReset(t *testing.T) {
	t.Parallel()
	k := frozen(t)
	k.event("RESET", "{}")
	k.nextStep()
	k.isThawed(t)
	require.NotContains(t, k.other, "ThawGuest 5s")
}

// A frozen guest is thawed before it is stopped if its agent answers in time.
func TestAFrozenGuestIsStopped(t *testing.T) {
	t.Parallel()
	k := frozen(t)
	k.isStopped("enough", false)
	k.does("LeaveAgents", "ThawGuest 5s")
	k.waits(agentTime)
	k.passes(time.Second)
	k.state.GuestThawed(2, nil, k.now)
	k.does("FindAgent 2s")
	k.isThawed(t)
	k.passes(time.Second)
	k.state.AgentFound(true, nil, k.now)
	k.does("ShutDownGuest 10s")
	require.True(t, k.now.Add(time.Minute).Equal(k.state.stop.deadlineOf(byACPI)), "the guest has all of its time")

	k = freezes(t)
	k.isStopped("enough", false)
	k.does("LeaveAgents", "EndFreeze")
	k.state.GuestFrozen(0, true, errSilent, k.now)
	k.does("answer 5", "ThawGuest 5s")
	k.passes(agentTime)
	k.does("FindAgent 2s")
	k.state.AgentFound(false, errSilent, k.now)
	k.does("system_powerdown")
	k.state.GuestThawed(0, errSilent, k.now)
	k.passes(thawPause)
	k.does("ThawGuest 5s")

	k = frozen(t)
	k.isStopped("enough", true)
	k.does("LeaveAgents", "ThawGuest 5s", "quit")
	k.state.QEMUExited(childprocess.Exit{}, k.now)
	k.state.Disconnected(qmp.ErrClosed, k.now)
	k.ends()
}
