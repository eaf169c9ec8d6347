package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/process"
	"vmop/qmp"
	"vmop/vmstatus"
)

const guestOff = `{"guest": true, "reason": "guest-shutdown"}`

// QEMU's end closes the monitor; what it has said before counts, whichever is seen
// first.
func TestTheGuestPowersOff(t *testing.T) {
	t.Parallel()
	ends := map[string]func(k *talk){
		"the process first": func(k *talk) {
			k.state.QEMUExited(process.Exit{}, k.now)
			k.waits(closeTime)
			k.event("SHUTDOWN", guestOff)
			k.state.Disconnected(qmp.ErrClosed, k.now)
		},
		"the monitor first": func(k *talk) {
			k.event("SHUTDOWN", guestOff)
			k.state.Disconnected(qmp.ErrClosed, k.now)
			k.waits(brokenTime)
			k.state.QEMUExited(process.Exit{}, k.now)
		},
		"the monitor stays open": func(k *talk) {
			k.event("SHUTDOWN", guestOff)
			k.state.QEMUExited(process.Exit{}, k.now)
			k.waits(closeTime)
			k.passes(closeTime)
		},
	}
	for what, end := range ends {
		k := newTalk(t)
		k.state.Run(2, qmp.Command{Execute: "query-name"}, k.now)
		k.does("query-name")
		k.returns("query-name", "{}")
		k.does("answer 2")
		end(k)
		require.Equal(t, Outcome{Cause: vmstatus.CauseGuest, Reason: "guest-shutdown"}, k.ends(), what)
		k.state.Run(3, qmp.Command{Execute: "query-name"}, k.now)
		k.next()
		require.Contains(t, k.other, "answer 3: QEMU has ended", what)
	}
}

// A QEMU that has announced its end and hangs gets SIGTERM, again and again. One
// that answers is meant to stay.
func TestAQEMUThatHangsInItsEnd(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("SHUTDOWN", guestOff)
	k.waits(nudgeTime)
	for range 3 {
		k.passes(k.wake.Sub(k.now))
		k.does("query-status")
		k.waits(nudgeAnswerTime)
		k.passes(nudgeAnswerTime)
		k.next()
		require.Len(t, k.other, 2)
		require.Contains(t, k.other[0], "Withdraw")
		require.Equal(t, "Signal terminated", k.other[1])
		k.other, k.open = nil, nil
		k.logged("QEMU has announced its end but is still running; sending SIGTERM")
	}

	k = newTalk(t)
	k.event("SHUTDOWN", guestOff)
	k.passes(nudgeTime)
	k.is(`{"status": "shutdown"}`)
	k.waits(heartbeatTime - shortestDoubt - nudgeTime)
}

// A QEMU whose monitor is gone is asked where it can be.
func TestAQEMUThatHangsWithoutAMonitor(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("SHUTDOWN", guestOff)
	k.loses()
	k.passes(nudgeTime)
	k.does("Dial")
	k.passes(nudgeAnswerTime)
	k.does("Signal terminated")
}

// A stop that is requested when QEMU is ending already explains a signal, and
// nothing else.
func TestAStopThatComesLate(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]vmstatus.Cause{
		"host-signal":    vmstatus.CauseAsked,
		"guest-shutdown": vmstatus.CauseGuest,
	} {
		k := newTalk(t)
		k.event("SHUTDOWN", `{"guest": `+map[bool]string{true: "true", false: "false"}[want == vmstatus.CauseGuest]+
			`, "reason": "`+reason+`"}`)
		k.state.QEMUExited(process.Exit{}, k.now)
		k.isStopped("signal", false)
		k.waits(closeTime)
		k.loses()
		require.Equal(t, want, k.ends().Cause)
	}
}

// A helper that ends with QEMU is no fault.
func TestAHelperEndsWithQEMU(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withTPM)
	k.state.HelperExited("swtpm", "exit status 0", k.now)
	k.waits(withQEMU)
	k.state.QEMUExited(process.Exit{}, k.now)
	k.passes(closeTime)
	k.ends()
	require.Empty(t, k.known.Problems)
}

// A helper's loss is a fault; without its TPM a machine is not reset, by whoever.
func TestHelpersAreLost(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withTPM)
	require.Equal(t, vmstatus.False, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.state.HelperExited("passt", "exit status 3", k.now)
	k.passes(time.Second)
	k.state.HelperExited("swtpm", "killed by signal 9 (SIGKILL)", k.now)
	k.waits(withQEMU - time.Second)
	k.passes(withQEMU - time.Second)
	k.waits(time.Second)
	require.Equal(t, []string{"passt has ended: exit status 3; the VM runs without it until it is restarted"},
		k.faults(vmstatus.ReasonHelperLost))
	k.passes(time.Second)
	k.does(`set-action {"reboot":"shutdown"}`)
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.loses() // whether QEMU has heard it is not known, so it is said again
	k.next()
	k.logged("QEMU will crash when the guest reboots")
	k.passes(brokenTime)
	k.does("Dial")
	k.state.Connected(k.now)
	k.next()
	require.Contains(t, k.other, `set-action {"reboot":"shutdown"}`)
	k.other = nil
	k.returns("set-action", "error: unknown")
	k.next()
	k.other = nil

	k.state.Reset(2, k.now)
	k.does("answer 2: " + k.state.helpers.noReset())
	counter, next := int64(1), int64(2)
	k.state.wanted.wish.Desired.ResetCounter = &counter
	k.next()
	k.other = nil
	k.state.wanted.wish.Desired.ResetCounter = &next
	k.next()
	require.NotContains(t, k.other, "system_reset")
}

// A runner that takes a machine over finds out what has ended meanwhile.
func TestHelpersThatEndedWithoutARunner(t *testing.T) {
	t.Parallel()
	k := found(t, withTPM, func(c *Config) { c.Running = nil })
	k.state.Adopt(Booting{}, k.now)
	k.does("Dial")
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	require.Len(t, k.known.Problems, 2)
	require.Contains(t, k.known.Problems[0].Message, "passt has ended: exit status unknown, since no runner was running")
	k.state.Connected(k.now)
	k.next()
	require.Contains(t, k.other, `set-action {"reboot":"shutdown"}`)
}
