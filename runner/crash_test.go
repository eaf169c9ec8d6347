package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner"
	"vmop/runner/control"
)

// bootGuest boots the tiny guest in a VM of the standard type.
func bootGuest(t *testing.T, section ...string) (*vm, *console) {
	t.Helper()
	defer takePlace(t)()
	v := newVM(t, "standard", append(append(kernel(t, ""), "network: []"), section...)...)
	c := attach(v)
	v.runs()
	c.await(`READY`)
	return v, c
}

// A guest that panics ends the machine, unless its type says otherwise: who
// looks after the runner sees a failure, and starts it anew.
func TestAPanicEndsTheMachine(t *testing.T) {
	t.Parallel()
	v, c := bootGuest(t)
	c.typeLine("panic")
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Equal(t, runner.CausePanic, outcome.Cause)
	require.NotZero(t, outcome.ExitCode())
	v.logged("QMP event", "event", "GUEST_PANICKED")
	v.nothingLeft()
}

func TestAGuestThatPanickedIsKept(t *testing.T) {
	t.Parallel()
	v, c := bootGuest(t, "options: {panic: pause}")
	c.typeLine("panic")
	v.log.await(t, v.ended, "the guest has panicked; it stands still until it is resumed or reset")
	client := v.client()
	require.NoError(t, client.Act(t.Context(), control.Reset))
	v.log.await(t, v.ended, "QMP event", "event", "RESET")
	require.NoError(t, client.Act(t.Context(), control.Resume))
	c.await(`READY`)
	v.ends()
}

// The tiny guest has no driver for the watchdog, so it does by hand what a
// driver does: it sets the clock to 1 MHz (two stages of half a second) and lets
// the timer run; see the data sheet of Intel's 6300ESB, 12.2.
const armWatchdog = `sh w=/sys/bus/pci/devices/0000:00:1b.0/config; ` +
	`printf '\4\0' | dd of=$w bs=2 seek=48 conv=notrunc; printf '\2' | dd of=$w bs=1 seek=104 conv=notrunc`

// A guest that hangs, or panics where that is its own affair, starts again.
func TestAGuestStartsAgain(t *testing.T) {
	t.Parallel()
	v, c := bootGuest(t, "options: {watchdog: reset, panic: none}")
	c.typeLine(armWatchdog)
	c.await(`READY`)
	v.logged("QMP event", "event", "WATCHDOG", "data", "reset")
	c.typeLine("panic")
	c.await(`READY`)
	v.logged("QMP event", "event", "GUEST_PANICKED", "data", "run")
	v.ends()
}
