package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/vmstatus"
)

// An idle VM is only asked for a heartbeat.
func TestTheHeartbeat(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.waits(heartbeatTime - shortestDoubt)
	k.passes(heartbeatTime - shortestDoubt)
	k.does("query-status")
	k.waits(overdueTime)
	k.returns("query-status", runs)
	k.waits(heartbeatTime)
	require.Equal(t, "running", k.known.QEMU.RunState)
	require.Equal(t, "7.2.22", k.known.QEMU.Version)
	require.Equal(t, 7, k.known.QEMU.PID)
}

// A flood of events causes only an occasional query.
func TestAFloodOfEventsIsOneQuestion(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	asked := 0
	for range 1000 {
		k.event("BLOCK_IO_ERROR", `{"action": "report", "operation": "read", "device": "x"}`)
		k.nextStep()
		for len(k.open) > 0 {
			asked++
			k.returns("query-status", runs)
		}
		k.passes(time.Millisecond)
	}
	require.InDelta(t, time.Second/restTime, asked, 2)
	require.Contains(t, k.faults(vmstatus.ReasonIOError)[0], "times, last at")
}

// A late reply is reported, and no command is sent twice.
func TestQEMUDoesNotAnswer(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.passes(heartbeatTime)
	k.does("query-status")
	k.passes(overdueTime)
	k.waits(0)
	require.True(t, k.known.QEMU.Unresponsive)
	k.logged("QEMU does not answer; waiting for it")
	k.passes(time.Hour)
	k.waits(0)
	k.returns("query-status", runs)
	k.waits(heartbeatTime)
	require.False(t, k.known.QEMU.Unresponsive)
	k.logged("QEMU answers again")
}

// Raw commands of clients may take any time.
func TestARawCommandIsNotOverdue(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.Run(2, qmp.Command{Execute: "dump-guest-memory"}, k.now)
	k.does("dump-guest-memory")
	k.passes(2 * overdueTime)
	k.does()
	require.False(t, k.known.QEMU.Unresponsive)
	k.returns("dump-guest-memory", "{}")
	k.does("answer 2")
}

// A user's pause lasts until the user resumes the VM in any way, even if QEMU reports an earlier state.
func TestAPauseHolds(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.passes(heartbeatTime)
	k.does("query-status") // in transit
	k.state.Pause(2, k.now)
	k.does("stop")
	require.True(t, k.saved.Paused)
	k.returns("query-status", runs) // from before the pause
	k.does()
	require.True(t, k.saved.Paused)
	k.returns("stop", "{}")
	k.does("answer 2")
	k.passes(restTime)
	k.event("STOP", "")
	k.is(stopped)
	k.does()
	require.True(t, k.saved.Paused)

	k.passes(restTime)
	k.event("RESUME", "") // with a QMP command
	k.is(runs)
	k.does()
	require.False(t, k.saved.Paused)

	k.state.Pause(3, k.now)
	k.state.Resume(4, k.now)
	k.does("stop", "cont")
	k.isDone()
	k.does("answer 3", "answer 4")
	require.False(t, k.saved.Paused)
}

// A VM paused before its guest ran stays paused.
func TestAPauseBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	k := fresh(t)
	k.state.Connected(k.now)
	k.state.Greeted("7.2.22")
	k.does("settled")
	k.state.Pause(2, k.now)
	k.does("stop")
	k.isDone()
	k.does("answer 2")
	k.state.Release(1, Booting{}, k.now)
	k.does("query-status", "query-spice", "query-vnc-servers")
	k.returns("query-status", `{"status": "prelaunch"}`)
	k.does()
	k.state.Resume(3, k.now)
	k.does("cont")
}

// A VM that is resumed before its guest ran is started only when its configuration has been applied.
func TestAResumeBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	k := fresh(t)
	k.state.Connected(k.now)
	k.state.Pause(2, k.now)
	k.state.Resume(3, k.now)
	k.does("stop", "answer 3")
	require.False(t, k.saved.Paused)
	k.isDone()
	k.does("answer 2")
	k.state.Greeted("7.2.22")
	k.does("settled")
	k.state.Resume(4, k.now)
	k.does("answer 4")
	k.state.Release(1, Booting{}, k.now)
	k.does("cont")
}

// A runner that adopts a VM with a guest that was never started starts the guest. A paused VM stays paused.
func TestAnAdoptedVMThatNeverRan(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		k := found(t, func(c *Config) { c.Progress.Paused = paused })
		k.state.Adopt(Booting{Reason: vmstatus.ReasonRunnerRestarted}, k.now)
		k.does("Dial")
		k.state.Connected(k.now)
		k.state.Greeted("7.2.22")
		k.does("query-status", "query-status", "query-spice", "query-vnc-servers")
		k.returns("query-status", `{"status": "prelaunch"}`)
		if paused {
			k.does()
			continue
		}
		k.does("cont")
		k.isDone()
		k.passes(restTime)
		k.event("RESUME", "")
		k.is(runs)
		k.does()
		k.passes(heartbeatTime)
		k.is(`{"status": "prelaunch"}`) // another client has reset it
		k.does()
	}
}

// An accelerator failure is reported until a reset.
func TestTheAcceleratorFails(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("STOP", "")
	k.is(`{"status": "internal-error"}`)
	k.does()
	require.Equal(t, []string{acceleratorFailed}, k.faults(vmstatus.ReasonMachineFailed))
	k.logged(acceleratorFailed)
	k.state.Reset(2, k.now)
	k.does("system_reset")
	k.isDone()
	k.does("answer 2")
	k.passes(restTime)
	k.event("RESET", "")
	k.is(runs)
	k.does()
	require.Empty(t, k.faults(vmstatus.ReasonMachineFailed))
	require.Empty(t, k.log[1:], "%q", k.log)
}

// A broken connection is restored. Commands are not repeated, possible changes are queried, and requests wait for the
// new connection.
func TestTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.Run(2, qmp.Command{Execute: "query-name"}, k.now)
	k.does("query-name")
	k.loses()
	k.does("answer 2: " + qmp.ErrClosed.Error())
	k.state.Run(3, qmp.Command{Execute: "query-uuid"}, k.now)
	k.state.Run(4, qmp.Command{Execute: "quit"}, k.now)
	k.waits(brokenTime)
	k.state.Cancel(4, k.now) // the caller has given up
	k.passes(brokenTime)
	k.does("Dial")
	k.waits(0)
	k.logged("the connection with QEMU's monitor is broken; connecting again")
	for wait := redialTime; wait < time.Minute; wait *= 2 {
		k.state.DialFailed(errors.New("no such file"), k.now)
		k.waits(min(wait, lastRedialTime))
		require.True(t, k.known.QEMU.Unresponsive)
		k.passes(min(wait, lastRedialTime))
		k.does("Dial")
	}
	k.state.Connected(k.now)
	k.does("query-uuid", "query-status", "query-status", "query-spice", "query-vnc-servers")
	require.False(t, k.known.QEMU.Unresponsive)
	k.returns("query-uuid", `{}`)
	k.does("answer 3")
}

// A canceled command is withdrawn.
func TestARequestIsCancelled(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.Run(2, qmp.Command{Execute: "query-name"}, k.now)
	k.does("query-name")
	k.state.Cancel(2, k.now)
	k.does("Withdraw 5")
	k.returns("query-name", "{}")
	k.does()
}

// If QEMU ends while it is starting, the start fails.
func TestQEMUEndsBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	k := fresh(t)
	k.state.Connected(k.now)
	k.does()
	k.loses()
	k.does("settled: " + qmp.ErrClosed.Error())
	k.state.Run(2, qmp.Command{Execute: "query-name"}, k.now)
	k.does("answer 2: " + qmp.ErrClosed.Error())
}

// If QEMU refuses the configuration of the paused machine, the start fails.
func TestQEMURefusesTheStart(t *testing.T) {
	t.Parallel()
	k := fresh(t, withBalloon)
	k.state.Connected(k.now)
	k.does(`balloon {"value":134217728}`)
	k.state.Greeted("7.2.22")
	k.does()
	k.returns("balloon", "error: no device")
	k.does(`settled: balloon {"value":134217728}: no device`)
}

// A stop request before the guest runs prevents its start.
func TestAStopBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	k := fresh(t)
	k.state.Connected(k.now)
	k.state.Greeted("7.2.22")
	k.does("settled")
	k.isStopped("enough", false)
	k.does()
	require.Equal(t, "enough", k.saved.Stop.Cause)
	k.state.Release(1, Booting{}, k.now)
	k.does("answer 1: the VM is being stopped")
}

// A command that could not be sent because the connection had ended waits for the next connection.
func TestACommandThatIsNotSent(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.Run(2, qmp.Command{Execute: "query-name"}, k.now)
	k.does("query-name")
	k.state.Unsent(k.open[0].ID, k.now)
	k.loses()
	k.does()
	k.passes(brokenTime)
	k.does("Dial")
	k.state.Connected(k.now)
	k.nextStep()
	require.Contains(t, k.other, "query-name")
	k.returns("query-name", "{}")
	k.other = nil
	k.does("answer 2")
}

// The driver doesn't connect before QEMU has started.
func TestNoConnectionBeforeTheStart(t *testing.T) {
	t.Parallel()
	k := fresh(t)
	k.waits(0)
	k.state.Connected(k.now)
	k.does()
}
