package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

const mib = int64(1) << 20

func balloon() plan.Rule { return plan.Balloon{Device: "balloon0", Maximum: 256 * mib} }

func inflate(n int64) string { return fmt.Sprintf(`balloon {"value":%d}`, n*mib) }

func actual(n int64) string { return fmt.Sprintf(`{"actual": %d}`, n*mib) }

func TestTheBalloonIsSetBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	for want, says := range map[int64][]string{
		128: {inflate(128)},
		256: nil,
		300: nil, // the machine's maximum
		0:   nil, // no wish
	} {
		k := newTalk(t, reconcile.Start{}, balloon())
		k.want.RAM = want * mib
		k.says(says...)
		k.isDone()
		k.silent() // no command while the guest isn't running
		require.Equal(t, 256*mib, k.machine.Facts().RAM)
		k.complains()
	}
}

func TestTheGuestFollowsTheBalloon(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, balloon())
	k.event("RESUME", "")
	k.want.RAM = 128 * mib
	k.says(inflate(128))
	k.isDone()
	k.waits(time.Second)
	k.passes(500 * time.Millisecond)
	k.event("BALLOON_CHANGE", actual(200))
	k.waits(500 * time.Millisecond)
	require.Equal(t, 200*mib, k.machine.Facts().RAM)
	k.event("BALLOON_CHANGE", actual(128))
	k.silent()
	k.complains()
	require.Equal(t, 128*mib, k.machine.Facts().RAM)

	k.want.RAM = 1024 * mib
	k.says(inflate(256))
	k.isDone()
	k.passes(time.Second)
	k.says("query-balloon") // the event was lost
	k.returns(actual(256))
	k.silent()
}

func TestAGuestThatDoesNotReachTheTargetIsLeftAlone(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, balloon())
	k.event("RESUME", "")
	k.want.RAM = 64 * mib
	k.says(inflate(64))
	k.isDone()
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		k.waits(pause * time.Second)
		k.passes(pause * time.Second)
		k.says("query-balloon")
		k.complains()
		k.returns(actual(256))
	}
	k.silent()
	k.complains("vm.currentRam: the guest has 256 MiB instead of the 64 MiB requested, and has come no closer for a minute; check that it loads the driver of the balloon")

	k.event("BALLOON_CHANGE", actual(147)) // the driver was loaded finally
	k.complains()
	for range 7 {
		k.passes(32 * time.Second)
		k.says("query-balloon")
		k.returns(actual(147 + 3)) // the guest sometimes takes some memory back
	}
	k.silent()
	require.Len(t, k.machine.Facts().Problems, 1)
	k.event("BALLOON_CHANGE", actual(64))
	k.silent()
	k.complains()
}

func TestARefusedBalloonIsTriedAgain(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, balloon())
	k.want.RAM = 64 * mib
	k.says(inflate(64)) // the earlier value is unknown
	k.returns("error: No balloon device has been activated")
	k.waits(500 * time.Millisecond)
	k.complains("vm.currentRam: set the balloon: No balloon device has been activated")
	require.Zero(t, k.machine.Facts().RAM)
	k.passes(500 * time.Millisecond)
	k.says(inflate(64))
	k.isDone()
	k.complains()
	k.passes(time.Second)
	k.says("query-balloon")
	k.returns("error: no")
	k.complains("vm.currentRam: ask the balloon: no")
	k.event("BALLOON_CHANGE", actual(100))
	k.complains()
	k.passes(time.Minute)
	k.says("query-balloon")
	k.returns(actual(64))
	k.silent()
	k.complains()
}

func TestWhenEventsWereLostTheStateIsAskedFor(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, balloon(), fourCPUs())
	k.want.RAM, k.want.CPUs = 256*mib, 1
	k.says(inflate(256), askCPUs)
	k.returns("", slots(4))
	k.passes(time.Second)
	k.says("query-balloon")
	k.returns(actual(256))
	k.silent()
	k.passes(time.Second)
	k.machine.Doubt()
	k.says("query-status", "query-balloon", askCPUs)
	k.event("STOP", "")
	k.returns(`{"running": true}`, actual(200), slots(4)) // this answer may be from before or after the STOP
	k.says("query-status")
	k.returns(`{"running": false}`)
	require.False(t, k.machine.Facts().Running)
	require.Equal(t, 200*mib, k.machine.Facts().RAM)
	k.silent()
}
