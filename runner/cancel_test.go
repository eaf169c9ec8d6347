package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner"
	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// quick returns a VM with every kind of resource to clean up, which ends immediately.
func quick(t *testing.T) *vm {
	t.Helper()
	v := newVM(t, "standard")
	v.configure("standard", []string{"cloudInit: {}"},
		"accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "maximumCpus: 4", "currentCpus: 2",
		"network: [{type: user}]",
		"display: {vnc: {}}", "powerdownTimeout: 0")
	return v
}

// If a stop request arrives at any time during the start, everything is cleaned up, and the error contains the reason.
// A guest that already runs is ended.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	at := func(message string, pairs ...string) func(*vm) {
		return func(v *vm) {
			v.log.on = func(r record) {
				if r.matches(message, pairs) {
					v.cancel(errEnough)
				}
			}
		}
	}
	tests := []struct {
		moment string
		set    func(*vm)
		runs   bool
	}{
		{"when the configuration is read", at("initializing"), false},
		{"when directories, image and swtpm are made", at("starting"), false},
		{"when QEMU is there", at("QMP command", "command", "qmp_capabilities"), false},
		{"when QEMU answers", at("QMP reply", "command", "qmp_capabilities"), false},
		{"when CPUs are plugged", at("QMP command", "command", "device_add"), false},
		{"when the machine is paused", func(v *vm) {
			v.onPaused = func(context.Context, *prepare.VM) error { v.cancel(errEnough); return nil }
		}, false},
		{"when the guest runs", at("booting"), true},
		{"when the machine version is asked for", at("QMP command", "command", "qom-get"), true},
	}
	for _, tt := range tests {
		t.Run(tt.moment, func(t *testing.T) {
			t.Parallel()
			v := quick(t)
			tt.set(v)
			v.start()
			outcome, err := v.wait()
			if tt.runs {
				require.NoError(t, err)
				require.Equal(t, vmstatus.CauseForced, outcome.Cause)
			} else {
				require.ErrorIs(t, err, errEnough)
				require.ErrorContains(t, err, "stopped while the VM was being started")
				v.notLogged("booting")
			}
			v.notLogged("cleaning up")
			v.nothingLeft()
		})
	}
}

// A stop request ends a QEMU that hangs during its start and ignores QMP and TERM.
func TestStopWhileQEMUHangs(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {qemu: PATH/bin/qemu}")
	v.program("#!/bin/sh\ntrap '' TERM\necho deaf\nsleep 1000\n")
	v.start()
	v.log.await(t, v.ended, "output", "process", "qemu", "line", "deaf")
	_, err := v.stop()
	require.ErrorIs(t, err, errEnough)
	v.notLogged("cleaning up")
	v.nothingLeft()
}

func TestRunIsToldToStopBeforeItBegins(t *testing.T) {
	t.Parallel()
	v := quick(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, err := runner.Run(ctx, v.options())
	require.ErrorIs(t, err, errEnough)
	v.nothingLeft()
	silent := v.options()
	silent.Log = nil
	_, err = runner.Run(ctx, silent)
	require.ErrorIs(t, err, errEnough)
}
