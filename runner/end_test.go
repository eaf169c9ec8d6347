package runner_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmstatus"
)

// Another program ends the processes of a VM.
func TestEndFromOutside(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what   string
		signal syscall.Signal
		cause  vmstatus.Cause
		reason string
		code   int
	}{
		{"kill -9", syscall.SIGKILL, vmstatus.CauseKilled, "", 137},
		{"a crash", syscall.SIGSEGV, vmstatus.CauseKilled, "", 139},
		{"an abort", syscall.SIGABRT, vmstatus.CauseKilled, "", 134},
		{"TERM for QEMU itself", syscall.SIGTERM, vmstatus.CauseKilled, "host-signal", 1},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			v := newVM(t, "bare")
			v.runs()
			v.signal(qemuProgram, tt.signal)
			outcome, err := v.wait()
			require.NoError(t, err)
			require.Equal(t, tt.cause, outcome.Cause)
			require.Equal(t, tt.reason, outcome.Reason)
			require.Equal(t, tt.code, outcome.ExitCode())
			v.logged("stopped", "outcome", "killed")
			v.nothingLeft()
		})
	}
}

// A QEMU that gives up by itself has an exit code, which is handed on. Here it
// is that of a script around it.
func TestQEMUExitsWithACode(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {qemu: PATH/bin/qemu}")
	v.program("#!/bin/sh\n" + qemuProgram + " \"$@\"\nexit 42\n")
	v.runs()
	v.signal(qemuProgram, syscall.SIGKILL)
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseCrashed, outcome.Cause)
	require.Equal(t, 42, outcome.ExitCode())
	v.nothingLeft()
}

// A guest that ignores the power button is ended by quit when its time is over;
// without a time it is not even asked. Both are a success.
func TestDeafGuestIsForced(t *testing.T) {
	t.Parallel()
	t.Run("after its time", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare", "powerdownTimeout: 1")
		v.runs()
		outcome, err := v.stop()
		require.NoError(t, err)
		require.Equal(t, machine.Outcome{Cause: vmstatus.CauseForced, Reason: "host-qmp-quit"}, outcome.Outcome)
		require.Zero(t, outcome.ExitCode())
		v.logged("QMP event", "event", "POWERDOWN")
		v.logged("stopping", "method", "ACPI power button")
		v.logged("stopping", "method", "QMP quit")
		v.notLogged("stopping", "method", "SIGTERM")
		v.nothingLeft()
	})
	t.Run("without time", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare", "powerdownTimeout: 0")
		v.runs()
		outcome, err := v.stop()
		require.NoError(t, err)
		require.Equal(t, vmstatus.CauseForced, outcome.Cause)
		v.notLogged("QMP event", "event", "POWERDOWN")
		v.notLogged("stopping", "method", "ACPI power button")
		v.nothingLeft()
	})
}

// An agent is asked before the power button is pressed, and one that only says
// yes leaves time for it. TestTheGuestAgentTellsWhatRuns has one that obeys.
func TestGuestAgentIsAskedFirst(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	leave := guest.TakePlace(t)
	v := newVM(t, "standard", append(kernel(t, ""), "network: []", "powerdownTimeout: 20")...)
	c := attach(v)
	v.runs()
	c.await(`READY`)
	c.startAgent(":")
	leave()
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, outcome.Cause)
	c.await(`AGENT was asked`)
	v.logged("stopping", "method", "guest agent", "timeout", "10s")
	v.logged("QMP event", "event", "POWERDOWN")
	v.nothingLeft()
}

// When QEMU loses its TPM, the guest lives on; the log says why it may complain.
func TestTPMEndsWhileTheVMRuns(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: bios", "useTpm: true", "network: []",
		"powerdownTimeout: 0")
	v.runs()
	v.signal("swtpm", syscall.SIGKILL)
	r := v.log.await(t, v.ended, "a helper ended while the VM runs", "process", "swtpm")
	require.Equal(t, "WARN", r["level"])
	require.Contains(t, r["exit"], "SIGKILL")
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.nothingLeft()
}
