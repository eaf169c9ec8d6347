package agents

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// After each boot, a guest without an answering agent becomes Running after a while, and Booted when its agent answers.
func TestAGuestWithoutAgentIsRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracker := status.NewTracker(time.Now, status.Entered{State: vmstatus.StateStarting})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go AwaitBoot(ctx, tracker, true)
		is := func(want vmstatus.State, updates ...status.Update) {
			t.Helper()
			require.NoError(t, tracker.Update(updates...))
			synctest.Wait()
			require.Equal(t, want, tracker.Status().State)
		}
		time.Sleep(time.Hour)
		is(vmstatus.StateStarting)
		is(vmstatus.StateBooting, status.Entered{State: vmstatus.StateBooting})
		time.Sleep(bootTime - time.Second)
		is(vmstatus.StateBooting, status.CPUs(2))
		time.Sleep(2 * time.Second)
		is(vmstatus.StateRunning)
		require.Equal(t, vmstatus.ReasonNoGuestAgent, tracker.Status().Reason)
		require.Equal(t, "no guest agent answers, so it is not known whether the guest has booted; "+
			"install qemu-guest-agent in it to know", tracker.Status().Message)
		is(vmstatus.StateBooted, status.Answered{})
		is(vmstatus.StateBooting, status.WasReset{})
		time.Sleep(bootTime - time.Second)
		is(vmstatus.StateBooted, status.Answered{})
		time.Sleep(time.Hour)
		is(vmstatus.StateBooted)
		is(vmstatus.StateBooting, status.WasReset{})
		time.Sleep(bootTime + time.Second)
		is(vmstatus.StateRunning)
		is(vmstatus.StateBooting, status.WasReset{})
		require.Empty(t, tracker.Status().Message)
		is(vmstatus.StateStopped, status.Ended{})
	})
}

// An adopted running guest has had time to boot, so its agent has a shorter time to answer.
func TestTheAgentOfAnAdoptedGuestHasLessTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for began, want := range map[time.Duration]time.Duration{
		time.Second: bootTime - time.Second, bootTime - time.Second: adoptedTime, 24 * time.Hour: adoptedTime,
	} {
		started := now.Add(-began)
		s := status.Status{Started: &started, Reason: vmstatus.ReasonRunnerRestarted}
		require.Equal(t, want, silentBootTime(s, now))
		s.Reason = vmstatus.ReasonVMReset
		require.Equal(t, bootTime, silentBootTime(s, now))
	}
	require.Equal(t, "the VM has no port for a guest agent, so it is not known whether the guest has booted",
		string(unansweredPort(false)))
}
