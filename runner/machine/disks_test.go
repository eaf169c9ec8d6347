package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

func withBalloon(c *Config) {
	c.Plan.Rules = plan.Rules{plan.Balloon{Device: "balloon0", Maximum: 256 * mib}}
	c.Wish.Desired = reconcile.Desired{RAM: 128 * mib}
}

const fullDisk = `[{"qdev": "disk0", "io-status": "nospace", "inserted": {"node-name": "x", "file": "/a.img"}}, {"qdev": "cd0"}]`

// measures returns the free space of the disk's file.
func (k *talk) measures(free int64) {
	k.t.Helper()
	k.does("query-block")
	k.returns("query-block", fullDisk)
	k.does("Measure [/a.img]")
	k.state.Measured(map[string]Space{"/a.img": {Known: true, Free: free, Size: 100 * mib}}, k.now)
}

// While a VM's disk is full, its status shows the reason. The VM is resumed when space becomes available.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("BLOCK_IO_ERROR", `{"action": "stop", "node-name": "x", "operation": "write", "nospace": true, "reason": "No space left on device"}`)
	k.event("STOP", "")
	k.is(ioError)
	k.measures(0)
	k.waits(spacePoll)
	const text = "disk0, /a.img: no space left on its file system; the VM is paused until 1 MiB more are free"
	require.Equal(t, []string{text}, k.faults(vmstatus.ReasonIOError))
	k.logged("QEMU has stopped the VM because of a disk")
	k.passes(spacePoll)
	k.is(ioError)
	k.measures(50 * mib)
	k.does("cont")
	k.isDone()
	k.passes(restTime)
	k.event("RESUME", "")
	k.is(runs)
	k.does()
	require.Empty(t, k.faults(vmstatus.ReasonIOError))
}

// A VM that the user has paused as well is not resumed.
func TestAPausedVMWithAFullDisk(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.state.Pause(2, k.now)
	k.does("stop")
	k.isDone()
	k.does("answer 2")
	k.event("STOP", "")
	k.is(ioError)
	k.measures(0)
	k.waits(spacePoll)
	k.passes(spacePoll)
	k.is(ioError)
	k.measures(50 * mib)
	k.nextStep()
	require.Empty(t, k.open)
	require.Contains(t, k.faults(vmstatus.ReasonIOError)[0], "A user has paused it, too: resume it")
}

// An answer from before the VM was resumed starts no new recovery, and a measurement after it has no effect.
func TestALateAnswerBeginsNoRecovery(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("STOP", "")
	k.does("query-status")
	k.state.Resume(2, k.now)
	k.does("cont")
	k.returns("query-status", ioError)
	k.does()
	k.isDone()
	k.does("answer 2")

	k.passes(restTime)
	k.event("STOP", "")
	k.is(ioError)
	k.does("query-block")
	k.returns("query-block", fullDisk)
	k.does("Measure [/a.img]")
	k.passes(restTime)
	k.event("RESUME", "")
	k.is(runs)
	k.state.Measured(map[string]Space{"/a.img": {Known: true, Free: 50 * mib, Size: 100 * mib}}, k.now)
	k.waits(heartbeatTime)
}

// Resuming is tried if the disk's state is unknown.
func TestADiskThatIsNotKnown(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("STOP", "")
	k.is(ioError)
	k.does("query-block")
	k.returns("query-block", "[]")
	k.waits(firstRetry)
	k.passes(firstRetry)
	k.is(ioError)
	k.does("query-block")
	k.returns("query-block", "error: busy")
	k.does("cont")
	k.returns("cont", "error: no")
	k.does()
	k.logged("resuming the VM after a failure of a disk")
	k.waits(spacePoll)
}
