package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// of sets a VM's run policy and clears its state.
func of(policy v1.RunPolicy) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) { s.RunPolicy, s.VM.State = policy, "" }
}

// Each run policy determines the reaction to the end of a guest (docs/reference/virtual-machines.md).
func runPolicies(t *testing.T, l *lab) {
	t.Run("AlwaysOff", func(t *testing.T) {
		t.Parallel()
		v := l.create(t, tiny("never", of(v1.AlwaysOff)))
		require.Equal(t, "spec.runPolicy is AlwaysOff", v.phase(v1.PhaseStopped).Status.Message)
	})
	t.Run("AlwaysOn", func(t *testing.T) {
		t.Parallel()
		v := l.create(t, tiny("always", of(v1.AlwaysOn)))
		qemu, pod := v.runs(), v.pod()
		guest := v.console().booted()
		guest.tell("reboot")
		guest.booted()
		require.Equal(t, qemu, v.qemu(), "a reboot stays in QEMU")
		guest.tell("poweroff")
		v.podOtherThan(pod)
		kill(t, v.runs())
		v.until("to have failed", func(now *v1.VirtualMachine) bool { return now.Status.Failures != nil })
		v.runs()
		v.console().booted()
		require.Empty(t, v.now().Spec.VM.State)
	})
	t.Run("AlwaysOnUnlessStoppedManually", func(t *testing.T) {
		t.Parallel()
		v := l.create(t, tiny("mostly", of(v1.AlwaysOnUnlessStoppedManually)))
		kill(t, v.runs())
		v.until("to have failed", func(now *v1.VirtualMachine) bool { return now.Status.Failures != nil })
		v.runs()
		v.console().booted().tell("poweroff")
		require.Equal(t, "the guest has shut down", v.phase(v1.PhaseStopped).Status.Message)
		require.Equal(t, v1.Stopped, v.now().Spec.VM.State)
		v.set(v1.Running)
		v.runs()
		v.set(v1.Stopped)
		require.Equal(t, "spec.vm.state is Stopped", v.phase(v1.PhaseStopped).Status.Message)
	})
	t.Run("Manual", func(t *testing.T) {
		t.Parallel()
		v := l.create(t, tiny("byhand", of(v1.Manual)))
		v.phase(v1.PhaseStopped)
		v.set(v1.Running)
		qemu, pod := v.runs(), v.pod()
		kill(t, qemu)
		is := v.phase(v1.PhaseStopped)
		require.Equal(t, []string{"Crashed", "killed"}, []string{is.Status.Reason, is.Status.Runner.Outcome.Cause})
		require.Equal(t, v1.Stopped, is.Spec.VM.State)
		v.podGone()
		v.set(v1.Running)
		v.podOtherThan(pod)
		v.runs()
		v.console().booted().tell("poweroff")
		v.phase(v1.PhaseStopped)
	})
}
