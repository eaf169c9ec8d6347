package machine

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/vmstatus"
)

// An outcome contains the cause of a machine's end and the runner's exit code.
func TestOutcomeTellsWhoEndedTheMachine(t *testing.T) {
	t.Parallel()
	guestOff := &Shutdown{Guest: true, Reason: "guest-shutdown"}
	killed := childprocess.Exit{Code: -1, Signal: syscall.SIGKILL}
	tests := []struct {
		what          string
		last          *Shutdown
		exit          childprocess.Exit
		asked, forced bool
		want          vmstatus.Cause
		code          int
		text          string
	}{
		{
			"guest powers off", guestOff,
			childprocess.Exit{},
			false, false, vmstatus.CauseGuest, 0,
			"guest shutdown (guest-shutdown)",
		},
		{
			"guest powers off because it was asked", guestOff,
			childprocess.Exit{},
			true, false, vmstatus.CauseAsked, 0,
			"asked (guest-shutdown)",
		},
		{"asked, and QEMU says nothing", nil, childprocess.Exit{}, true, false, vmstatus.CauseAsked, 0, "asked"},
		{
			"guest resets where that ends the machine", &Shutdown{true, "guest-reset"},
			childprocess.Exit{},
			false, false,
			vmstatus.CauseReset, 0, "guest reset (guest-reset)",
		},
		{
			"guest panics", &Shutdown{true, "guest-panic"},
			childprocess.Exit{},
			false, false, vmstatus.CausePanic, 1,
			"guest panic (guest-panic)",
		},
		{
			"told by quit", &Shutdown{false, "host-qmp-quit"},
			childprocess.Exit{},
			true, true, vmstatus.CauseForced, 0,
			"forced (host-qmp-quit)",
		},
		{
			"had to be killed", nil, killed, true, true, vmstatus.CauseForced, 137,
			"forced, QEMU: killed by signal 9 (SIGKILL)",
		},
		{
			"killed by another program", nil, killed, false, false, vmstatus.CauseKilled, 137,
			"killed, QEMU: killed by signal 9 (SIGKILL)",
		},
		{
			"killed while it was asked", nil, killed, true, false, vmstatus.CauseKilled, 137,
			"killed, QEMU: killed by signal 9 (SIGKILL)",
		},
		{
			"aborts", nil,
			childprocess.Exit{Code: -1, Signal: syscall.SIGABRT, Core: true},
			false, false, vmstatus.CauseKilled,
			134, "killed, QEMU: killed by signal 6 (SIGABRT), core dumped",
		},
		{
			"crashes", nil,
			childprocess.Exit{Code: 1},
			false, false,
			vmstatus.CauseCrashed, 1, "crashed, QEMU: exit status 1",
		},
		{
			"crashes with its own exit code", nil,
			childprocess.Exit{Code: 42},
			false, false, vmstatus.CauseCrashed, 42,
			"crashed, QEMU: exit status 42",
		},
		{
			"crashes after the guest's end", guestOff,
			childprocess.Exit{Code: 1},
			false, false, vmstatus.CauseCrashed, 1,
			"crashed (guest-shutdown), QEMU: exit status 1",
		},
		{
			"another program sends TERM to QEMU", &Shutdown{false, "host-signal"},
			childprocess.Exit{},
			false, false,
			vmstatus.CauseKilled, 1, "killed (host-signal)",
		},
		{
			"another client says quit", &Shutdown{false, "host-qmp-quit"},
			childprocess.Exit{},
			false, false, vmstatus.CauseKilled, 1,
			"killed (host-qmp-quit)",
		},
		{
			"guest powers off, QEMU's exit is not known", guestOff,
			childprocess.Exit{Code: -1},
			false, false,
			vmstatus.CauseGuest, 0, "guest shutdown (guest-shutdown), QEMU: exit status unknown",
		},
		{
			"is asked, QEMU's exit is not known", guestOff,
			childprocess.Exit{Code: -1},
			true, false, vmstatus.CauseAsked, 0,
			"asked (guest-shutdown), QEMU: exit status unknown",
		},
		{
			"is forced, QEMU's exit is not known", nil,
			childprocess.Exit{Code: -1},
			true, true, vmstatus.CauseForced, 0,
			"forced, QEMU: exit status unknown",
		},
		{
			"ends without an event, its exit is not known", nil,
			childprocess.Exit{Code: -1},
			true, false, vmstatus.CauseKilled, 1,
			"killed, QEMU: exit status unknown",
		},
		{"ends without a word", nil, childprocess.Exit{}, false, false, vmstatus.CauseKilled, 1, "killed"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			got := outcomeOfEnd(tt.last, tt.exit, tt.asked, tt.asked, tt.forced)
			require.Equal(t, tt.want, got.Cause)
			require.Equal(t, tt.code, got.ExitCode())
			require.Equal(t, tt.text, got.String())
		})
	}
}

// When a node shuts down, QEMU and the runner receive signals at the same time.
func TestOutcomeOfAMachineThatIsToldWithItsRunner(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]vmstatus.Cause{
		"host-signal":    vmstatus.CauseAsked,
		"guest-shutdown": vmstatus.CauseGuest, "host-qmp-quit": vmstatus.CauseKilled,
	} {
		last := &Shutdown{reason == "guest-shutdown", reason}
		require.Equal(t, want, outcomeOfEnd(last, childprocess.Exit{}, false, true, false).Cause, reason)
	}
	require.Equal(t, vmstatus.CauseCrashed, outcomeOfEnd(&Shutdown{Reason: "host-signal"}, childprocess.Exit{Code: 1},
		false,
		true, false).Cause)
}

// A supervisor must see a failure if the VM's reset was impossible without its TPM.
func TestAResetWithoutTPMIsAFailure(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		k := newTalk(t, withTPM)
		if lost {
			k.state.HelperExited("swtpm", "exit status 1", k.now)
			k.does("query-chardev")
			k.returns("query-chardev", "error: no")
			k.does(`set-action {"reboot":"shutdown"}`)
			k.isDone()
		}
		k.event("SHUTDOWN", `{"guest": true, "reason": "guest-reset"}`)
		k.state.QEMUExited(childprocess.Exit{}, k.now)
		k.state.Disconnected(qmp.ErrClosed, k.now)
		o := k.ends()
		if lost {
			require.Equal(t, vmstatus.CauseTPM, o.Cause)
			require.Equal(t, 1, o.ExitCode())
		} else {
			require.Equal(t, vmstatus.CauseReset, o.Cause)
			require.Zero(t, o.ExitCode())
		}
	}
}
