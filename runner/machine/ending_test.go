package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

const guestOff = `{"guest": true, "reason": "guest-shutdown"}`

// When the guest powers off, QEMU's last messages count, whether the end of the monitor or the process is seen first.
func TestTheGuestPowersOff(t *testing.T) {
	t.Parallel()
	ends := map[string]func(k *talk){
		"the process first": func(k *talk) {
			k.state.QEMUExited(childprocess.Exit{}, k.now)
			k.waits(closeTime)
			k.event("SHUTDOWN", guestOff)
			k.state.Disconnected(qmp.ErrClosed, k.now)
		},
		"the monitor first": func(k *talk) {
			k.event("SHUTDOWN", guestOff)
			k.state.Disconnected(qmp.ErrClosed, k.now)
			k.waits(brokenTime)
			k.state.QEMUExited(childprocess.Exit{}, k.now)
		},
		"the monitor stays open": func(k *talk) {
			k.event("SHUTDOWN", guestOff)
			k.state.QEMUExited(childprocess.Exit{}, k.now)
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
		k.nextStep()
		require.Contains(t, k.other, "answer 3: QEMU has ended", what)
	}
}

// A QEMU that has announced its end and hangs repeatedly receives SIGTERM. A QEMU that still answers is left running.
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
		k.nextStep()
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

// A QEMU that hangs without a monitor receives SIGTERM if no new connection succeeds.
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

// A stop requested while QEMU is already ending explains only a signal.
func TestAStopThatComesLate(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]vmstatus.Cause{
		"host-signal":    vmstatus.CauseAsked,
		"guest-shutdown": vmstatus.CauseGuest,
	} {
		k := newTalk(t)
		k.event("SHUTDOWN", `{"guest": `+map[bool]string{true: "true", false: "false"}[want == vmstatus.CauseGuest]+
			`, "reason": "`+reason+`"}`)
		k.state.QEMUExited(childprocess.Exit{}, k.now)
		k.isStopped("signal", false)
		k.waits(closeTime)
		k.loses()
		require.Equal(t, want, k.ends().Cause)
	}
}

// A helper that ends together with QEMU is not reported as a fault.
func TestAHelperEndsWithQEMU(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withTPM)
	k.state.HelperExited("swtpm", "exit status 0", k.now)
	k.does("query-chardev")
	k.waits(withQEMU)
	k.state.QEMUExited(childprocess.Exit{}, k.now)
	k.passes(closeTime)
	k.ends()
	require.Empty(t, k.known.Problems)
	require.Empty(t, k.log)
}

// The loss of a helper is reported as a fault.
func TestHelpersAreLost(t *testing.T) {
	t.Parallel()
	require.Equal(t, vmstatus.ReasonNoTPM, newTalk(t).known.Condition(vmstatus.ConditionTPMLost).Reason)
	k := newTalk(t, withTPM)
	require.Equal(t, vmstatus.False, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	require.Equal(t, vmstatus.ReasonTPMPresent, k.known.Condition(vmstatus.ConditionTPMLost).Reason)
	k.state.HelperExited("passt", "exit status 3", k.now)
	k.passes(time.Second)
	k.state.HelperExited("swtpm", "killed by signal 9 (SIGKILL)", k.now)
	k.does("query-chardev")
	k.waits(withQEMU - time.Second)
	k.passes(withQEMU - time.Second)
	k.waits(time.Second)
	require.Equal(t, []string{"passt has ended: exit status 3; the VM runs without it until it is restarted"},
		k.faults(vmstatus.ReasonHelperLost))
	require.Equal(t, vmstatus.False, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.returns("query-chardev", "[]") // QEMU is still running
	k.nextStep()
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)

	k = newTalk(t, withTPM, func(c *Config) { c.Plan.Helpers[1].Ready = "" })
	k.state.HelperExited("swtpm", "exit status 1", k.now)
	k.does(`set-action {"reboot":"shutdown"}`)
	require.Equal(t, vmstatus.False, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.returns("set-action", "{}")
	k.nextStep()
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.does()

	k = newTalk(t, withTPM)
	k.state.HelperExited("swtpm", "exit status 1", k.now)
	k.does("query-chardev")
	k.returns("query-chardev", "error: no") // an error is an answer as well
	k.nextStep()
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
}

// A lost network helper is restarted soon and then with pauses, and QEMU's cards announce themselves to it. The loss is
// reported until it works again.
func TestTheHelperOfANetworkIsStartedAgain(t *testing.T) {
	t.Parallel()
	withNetwork := func(c *Config) {
		c.Plan.Helpers = []plan.Process{{Name: "passt-net0", Role: plan.RoleNetwork}}
		c.Running = []string{"passt-net0"}
	}
	announces := `announce-self {"initial":50,"max":550,"rounds":5,"step":100}`
	k := newTalk(t, withNetwork)
	k.state.HelperExited("passt-net0", "exit status 3", k.now)
	k.does()
	k.passes(withQEMU)
	k.does("StartHelper passt-net0")
	require.Equal(t, []string{"passt-net0 has ended: exit status 3; it is started again, until then a network of the VM " +
		"doesn't work"}, k.faults(vmstatus.ReasonHelperLost))
	k.state.HelperStarted("passt-net0", nil, nil, k.now)
	k.does(announces)
	k.returns("announce-self", "{}")
	k.nextStep()
	require.Empty(t, k.known.Problems)

	k.state.HelperExited("passt-net0", "exit status 3", k.now)
	k.passes(networkPause - time.Millisecond)
	k.does()
	k.passes(time.Millisecond)
	k.does("StartHelper passt-net0")
	k.state.HelperStarted("passt-net0", nil, errors.New("exit status 1\n  said"), k.now)
	k.passes(networkPause)
	k.does("StartHelper passt-net0")
	require.Equal(t, []string{"passt-net0 has ended: no process replaces it: exit status 1 said; it is started again, " +
		"until then a network of the VM doesn't work"}, k.faults(vmstatus.ReasonHelperLost))

	k = found(t, withNetwork, func(c *Config) { c.Running = nil })
	k.state.Adopt(Booting{}, k.now)
	k.nextStep()
	require.Contains(t, k.other, "StartHelper passt-net0")
}

// Without a monitor, a new TPM connection is requested only when QEMU is reachable again.
func TestTheTPMEndsWithoutAMonitor(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withTPM)
	k.state.HelperExited("swtpm", "exit status 1", k.now)
	k.does("query-chardev")
	k.loses()
	k.nextStep()
	require.NotContains(t, k.other, "query-chardev")
	k.other = nil
	k.state.Connected(k.now)
	k.nextStep()
	require.Contains(t, k.other, "query-chardev")

	k = newTalk(t, withTPM)
	k.loses()
	k.state.HelperExited("swtpm", "exit status 1", k.now)
	k.nextStep()
	require.NotContains(t, k.other, "query-chardev")
}

// A helper's socket is the socket that it inherits, or otherwise the socket that shows its readiness.
func TestSocketOfAHelper(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Listeners: []plan.Listener{{Name: "other", Path: "/run/other"}, {Name: "tpm", Path: "/run/tpm"}}}
	inherits := []plan.Option{{Flag: "--server", Properties: []plan.Property{{Key: "fd", Descriptor: "tpm"}}}}
	require.Equal(t, "/run/tpm", socketOf(p, plan.Process{Args: inherits, Ready: "/run/ready"}))
	require.Equal(t, "/run/ready", socketOf(p, plan.Process{Ready: "/run/ready"}))
}

// After the end of the TPM's process every reset is refused, because QEMU would exit.
func TestNoResetOnceTheTPMHasEnded(t *testing.T) {
	t.Parallel()
	counter, next := int64(1), int64(2)
	k := newTalk(t, withTPM)
	k.state.wanted.wish.Desired.ResetCounter = &counter
	k.nextStep()
	k.state.HelperExited("swtpm", "killed by signal 9 (SIGKILL)", k.now)
	k.state.Reset(2, k.now)
	k.does("answer 2: "+k.state.helpers.tpm.noReset(), "query-chardev")
	k.state.wanted.wish.Desired.ResetCounter = &next
	k.does()
	require.Contains(t, k.known.Problems[0].Message, "its TPM is lost")
}

// lostTPM is QEMU's answer about its connection to an ended TPM.
const lostTPM = `[{"label": "m", "filename": "unix:"}, {"label": "c", "filename": "disconnected:unix:/run/tpm"}]`

// QEMU receives a connection to a new process after the TPM's process has ended, so that the guest may reboot. This is
// repeated, but not forever.
func TestTheTPMIsReplaced(t *testing.T) {
	t.Parallel()
	k := newTalk(t, withTPM)
	for i := range replacements {
		k.state.HelperExited("swtpm", "exit status 1", k.now)
		k.does("query-chardev")
		if i == 0 { // QEMU has not noticed yet
			k.returns("query-chardev", `[{"label": "c", "filename": "unix:/run/tpm"}]`)
			k.waits(hangupTime)
			k.passes(hangupTime)
			k.does("query-chardev")
		}
		k.returns("query-chardev", lostTPM)
		k.does("StartHelper swtpm /run/tpm")
		require.NotContains(t, strings.Join(k.log, ""), "asking for the connection")
		require.False(t, k.saved.TPMReplaced)
		k.state.HelperStarted("swtpm", nil, nil, k.now)
		k.does(`getfd {"fdname":"vmop-tpm"}`, `add_client {"fdname":"vmop-tpm","protocol":"c"}`)
		k.isDone()
		k.does("Close <nil>")
		require.True(t, k.saved.TPMReplaced)
		k.logged("the TPM's process was started again")
		require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
		require.Equal(t, []string{"swtpm has ended: exit status 1; the guest runs without its TPM and cannot be reset: " +
			"stop the VM and start it again"}, k.faults(vmstatus.ReasonTPMLost))
	}
	k.state.HelperExited("swtpm", "exit status 1", k.now)
	k.does(`set-action {"reboot":"shutdown"}`)
}

// If QEMU can't receive a new TPM process, it shuts down cleanly when the guest reboots.
func TestTheTPMIsNotReplaced(t *testing.T) {
	t.Parallel()
	lose := func(change ...func(*Config)) *talk {
		k := newTalk(t, append([]func(*Config){withTPM}, change...)...)
		k.state.HelperExited("swtpm", "exit status 1", k.now)
		return k
	}
	asked := func(k *talk, answer string) *talk {
		k.does("query-chardev")
		k.returns("query-chardev", answer)
		return k
	}
	started := func(err error) *talk {
		k := asked(lose(), lostTPM)
		k.does("StartHelper swtpm /run/tpm")
		k.state.HelperStarted("swtpm", nil, err, k.now)
		return k
	}
	nonsense := asked(lose(), "17")
	nonsense.nextStep()
	nonsense.logged("asking for the connection with the TPM")
	elsewhere := lose()
	for range hangups {
		asked(elsewhere, "[]")
		elsewhere.passes(hangupTime)
	}
	refuses := started(nil)
	refuses.nextStep()
	refuses.other = nil
	refuses.returns("getfd", "error: no")
	refuses.returns("add_client", "error: no")
	refuses.does("Close <nil>", `set-action {"reboot":"shutdown"}`)
	refuses.returns("set-action", "error: unknown")
	refuses.nextStep()
	refuses.logged("QEMU will crash when the guest reboots")

	for what, k := range map[string]*talk{
		"no socket":         lose(func(c *Config) { c.Plan.Helpers[1].Ready = "" }),
		"QEMU cannot tell":  asked(lose(), "error: no"),
		"connected by name": elsewhere,
		"does not start":    started(errors.New("no swtpm")),
	} {
		k.nextStep()
		require.Equal(t, []string{`set-action {"reboot":"shutdown"}`}, k.other, what)
		k.other = nil
		k.loses() // it is unknown whether QEMU has received the command, so it is repeated
		k.nextStep()
		k.passes(brokenTime)
		k.nextStep()
		k.other = nil
		k.state.Connected(k.now)
		k.nextStep()
		require.Contains(t, k.other, `set-action {"reboot":"shutdown"}`, what)
	}
}

// A runner that adopts a machine detects the helpers that have ended since.
func TestHelpersThatEndedWithoutARunner(t *testing.T) {
	t.Parallel()
	k := found(t, withTPM, func(c *Config) { c.Running = nil })
	k.state.Adopt(Booting{}, k.now)
	k.does("Dial")
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	require.Len(t, k.known.Problems, 2)
	require.Contains(t, k.known.Problems[0].Message, "passt has ended: exit status unknown, since no runner was running")
	k.state.Connected(k.now)
	k.nextStep()
	require.Contains(t, k.other, "query-chardev")

	k = found(t, withTPM, func(c *Config) { c.Running, c.Progress.TPMReplaced = []string{"passt"}, true })
	k.state.Adopt(Booting{}, k.now)
	k.does("Dial")
	require.Equal(t, vmstatus.True, k.known.Condition(vmstatus.ConditionTPMLost).Status)
	k.state.Connected(k.now)
	k.nextStep()
	require.NotContains(t, k.other, "query-chardev", "the earlier runner has replaced it")
	k.other = nil
	k.state.Reset(2, k.now)
	k.nextStep()
	require.Contains(t, k.other, "answer 2: "+k.state.helpers.tpm.noReset())
	require.Contains(t, k.state.helpers.tpm.noReset(), "its TPM is lost")
}

// A runner that starts while QEMU is ending knows the cause only from the killed runner's record.
func TestAnEndThatTheEarlierRunnerHasHeardOf(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("SHUTDOWN", guestOff)
	k.nextStep()
	require.Equal(t, &Shutdown{Guest: true, Reason: "guest-shutdown"}, k.saved.Shutdown)
	for cause, stop := range map[vmstatus.Cause]*StopRequest{
		vmstatus.CauseGuest: nil, vmstatus.CauseAsked: {Cause: "enough"},
	} {
		k := found(t, func(c *Config) { c.Progress.Shutdown, c.Progress.Stop = k.saved.Shutdown, stop })
		k.state.Adopt(Booting{}, k.now)
		k.state.QEMUExited(childprocess.Exit{Code: -1}, k.now)
		k.state.Disconnected(qmp.ErrClosed, k.now)
		require.Equal(t, cause, k.ends().Cause)
	}
	for code, cause := range map[int]vmstatus.Cause{ // QEMU announced its end while there was no runner
		0: vmstatus.CauseAsked, 1: vmstatus.CauseCrashed, -1: vmstatus.CauseKilled,
	} {
		k := found(t, func(c *Config) { c.Progress.Stop = &StopRequest{Cause: "enough"} })
		k.state.Adopt(Booting{}, k.now)
		k.state.QEMUExited(childprocess.Exit{Code: code}, k.now)
		k.state.Disconnected(qmp.ErrClosed, k.now)
		require.Equal(t, cause, k.ends().Cause)
	}
}
