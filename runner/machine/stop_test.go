package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/vmstatus"
)

func lasting(d time.Duration) func(*Config) { return func(c *Config) { c.Wish.Powerdown = d } }

// forced requires the steps of a forced stop with their times, until the end.
func (k *talk) forced() {
	k.t.Helper()
	k.does("quit")
	k.passes(quitTime)
	k.does("Signal terminated")
	k.waits(termTime)
	k.passes(termTime)
	k.does("Signal killed")
	k.passes(termTime)
	k.does()
	k.state.QEMUExited(childprocess.Exit{}, k.now)
	k.state.Disconnected(qmp.ErrClosed, k.now)
	require.Equal(k.t, vmstatus.CauseForced, k.ends().Cause)
}

// The maximum duration of a forced stop fits into a pod's grace period.
func TestAForcedStopFitsIntoTheGracePeriod(t *testing.T) {
	t.Parallel()
	const lastReport = 4 * time.Second        // of cmd/vmrunner
	most := agentTime + termTime + lastReport // a helper that obeys
	for _, how := range stopMethods() {
		if how.isForced() {
			most += how.forceTime()
		}
	}
	require.LessOrEqual(t, most, config.ForcedStop)
}

// Without an agent the power button receives all of the guest's time. It is pressed repeatedly before force is used.
func TestTheGuestIsAskedByThePowerButton(t *testing.T) {
	t.Parallel()
	k := newTalk(t, lasting(41*time.Second))
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	require.Equal(t, vmstatus.StateTerminating, k.known.State)
	require.Equal(t, "enough", k.known.Message)
	require.Equal(t, &StopRequest{At: k.boot, Cause: "enough"}, k.saved.Stop)
	k.isDone()
	k.waits(pressAgain)
	k.passes(pressAgain)
	k.does("system_powerdown")
	k.isDone()
	k.waits(pressAgain)
	k.passes(pressAgain)
	k.does("system_powerdown")
	k.isDone()
	k.waits(time.Second)
	k.passes(time.Second)
	k.does("quit")
}

// An agent that accepts a shutdown without effect leaves half of the time for the power button.
func TestTheAgentHasHalfOfTheGuestsTime(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withAgent, lasting(21*time.Nanosecond))
	k.event("VSERPORT_CHANGE", `{"id": "port0", "open": true}`)
	k.does("SetPort guestAgent true false")
	k.isStopped("enough", false)
	k.does("LeaveAgents", "FindAgent 2s")
	k.waits(agentTime)
	k.passes(time.Second) // does not count as the guest's time
	k.state.AgentFound(true, nil, k.now)
	k.does("ShutDownGuest 10ns")
	k.state.AgentAnswered(nil)
	k.waits(10)
	k.passes(10)
	k.does("system_powerdown")
	k.isDone()
	k.waits(11) // halving loses no time
	k.passes(11)
	k.forced()
}

// An agent that refuses leaves its share of the time to the power button.
func TestAnAgentThatRefuses(t *testing.T) {
	t.Parallel()
	for _, err := range []error{&qmp.Error{Desc: "no"}, errors.New("gone")} {
		k := newTalk(t, withAgent)
		k.isStopped("enough", false)
		k.does("LeaveAgents", "query-chardev") // an event may have been lost
		k.returns("query-chardev", `[{"filename": "disconnected:unix:/run/agent,server=on", "frontend-open": true}]`)
		k.does("FindAgent 2s")
		k.state.AgentFound(true, nil, k.now)
		k.does("ShutDownGuest 10s")
		k.state.AgentAnswered(err)
		k.does("system_powerdown")
		k.isDone()
		k.passes(59 * time.Second)
		k.nextStep()
		k.other = nil
		k.isDone()
		k.passes(time.Second)
		k.does("quit")
	}
}

// An absent or silent agent doesn't use up the guest's time.
func TestNoAgentAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"", `[]`, "error: no"} {
		k := newTalk(t, withAgent)
		k.isStopped("enough", false)
		k.does("LeaveAgents", "query-chardev")
		if answer == "" {
			k.passes(agentTime)
		} else {
			k.returns("query-chardev", answer)
		}
		k.does("system_powerdown")
		k.state.AgentFound(true, nil, k.now) // too late
		k.does()
		require.True(t, k.now.Add(time.Minute).Equal(k.state.stop.deadlineOf(byACPI)))
	}
}

// If QEMU refuses to press the button, the stop does not wait. If QEMU stalls, it may still press the button.
func TestQEMUDoesNotPressTheButton(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	k.returns("system_powerdown", "error: no button")
	k.does("quit")

	k = newTalk(t)
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	k.passes(quitTime)
	k.does()
	k.logged("no answer in time")
	k.passes(time.Minute - quitTime)
	k.nextStep()
	require.Contains(t, k.other, "quit")
}

// Without time the guest is not asked. The same holds for a kill, even during a stop.
func TestAKilledVM(t *testing.T) {
	t.Parallel()
	k := newTalk(t, lasting(0), withAgent)
	k.isStopped("enough", false)
	k.nextStep()
	require.Equal(t, []string{"LeaveAgents", "quit"}, k.other)

	k = newTalk(t, withAgent)
	k.isStopped("kill", true)
	k.does("LeaveAgents", "quit")
	require.True(t, k.saved.Stop.AtOnce)

	k = newTalk(t)
	k.isStopped("stop", false)
	k.does("LeaveAgents", "system_powerdown")
	at := k.boot
	k.isDone()
	k.passes(time.Second)
	k.isStopped("kill", true)
	require.Equal(t, "stop", k.known.Message)
	k.nextStep()
	require.Equal(t, &StopRequest{At: at, Cause: "stop", AtOnce: true}, k.saved.Stop)
	require.Equal(t, []string{"quit"}, k.other)
}

// A changed powerdownTimeout is used immediately, even during a stop.
func TestPowerdownTimeoutChangesInAStop(t *testing.T) {
	t.Parallel()
	k := newTalk(t, lasting(time.Hour))
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	k.isDone()
	k.passes(10 * time.Second)
	wish := Wish{Powerdown: 15 * time.Second}
	k.state.Configured(Reading{Wish: wish})
	k.waits(5 * time.Second)
	wish.Powerdown = 30 * time.Second
	k.state.Configured(Reading{Wish: wish})
	k.waits(pressAgain - 10*time.Second)
	wish.Powerdown = 9 * time.Second
	k.state.Configured(Reading{Wish: wish})
	k.does("quit")
}

// The guest's time is limited to the pod's grace period, and the limit is reported.
func TestTheGracePeriodBoundsTheGuestsTime(t *testing.T) {
	t.Parallel()
	k := newTalk(t, lasting(time.Hour), func(c *Config) { c.Grace = config.ForcedStop + 15*time.Second })
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	k.logged("the guest has less time than powerdownTimeout: the pod would be killed before")
	k.isDone()
	k.waits(15 * time.Second)
}

// The next runner continues a killed runner's stop and counts the elapsed time.
func TestAStopGoesOnWithAnotherRunner(t *testing.T) {
	t.Parallel()
	k := found(t, func(c *Config) { c.Progress.Stop = &StopRequest{At: time.Hour - 45*time.Second, Cause: "enough"} })
	k.state.Adopt(Booting{}, k.now)
	k.does("Dial")
	k.state.Connected(k.now)
	k.isStopped("enough", false)
	k.nextStep()
	require.Contains(t, k.other, "system_powerdown")
	k.returns("system_powerdown", "{}")
	k.passes(14 * time.Second)
	k.nextStep()
	require.NotContains(t, k.other, "quit")
	k.passes(time.Second)
	k.nextStep()
	require.Contains(t, k.other, "quit")
}

// A machine that is being stopped receives no configuration changes, but its disks are still watched.
func TestAStopLeavesTheMachineAsItIs(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	counter := int64(7)
	k.state.Configured(Reading{Wish: Wish{Powerdown: time.Minute}})
	k.state.wanted.wish.Desired.ResetCounter = &counter
	k.does()
	k.event("STOP", "")
	k.is(ioError)
	k.measures(0)
}

// A quit counts as successful even if the connection closes before the answer.
func TestQuitClosesTheConnection(t *testing.T) {
	t.Parallel()
	k := newTalk(t, lasting(0))
	k.isStopped("enough", false)
	k.does("LeaveAgents", "quit")
	k.loses()
	k.waits(brokenTime)
	k.state.QEMUExited(childprocess.Exit{}, k.now)
	require.Equal(t, vmstatus.CauseForced, k.ends().Cause)
}

// The log shows how long a stop waits for the guest, and how to end it sooner if that is possible.
func TestAStopSaysHowLongItTakes(t *testing.T) {
	t.Parallel()
	const sooner = "vmrunner stop --force"
	k := newTalk(t, lasting(41*time.Second))
	k.isStopped("enough", false)
	k.does("LeaveAgents", "system_powerdown")
	said := strings.Join(k.log, "")
	require.Contains(t, said, "timeout 41s")
	k.logged(sooner)
	k.isDone()
	k = newTalk(t, lasting(0))
	k.isStopped("enough", false)
	k.does("LeaveAgents", "quit")
	said = strings.Join(k.log, "")
	require.Contains(t, said, "timeout "+byQuit.forceTime().String())
	require.NotContains(t, said, sooner)
}
