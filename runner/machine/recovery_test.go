package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

const mib = 1 << 20

// rescue simulates a machine that stops whenever its disk fails, and returns the times of its resumes in seconds. ran
// is the time that the machine runs before the disk fails again. It is not called when the disk works.
func rescue(t *testing.T, end time.Duration, disk func(at time.Duration) failedDisk,
	ran func(at time.Duration) time.Duration,
) (attempts []time.Duration) {
	t.Helper()
	var r recovery
	begin := time.Unix(1e9, 0)
	for now := begin; now.Sub(begin) < end; {
		resume, wake, why := r.decideResume([]failedDisk{disk(now.Sub(begin))}, now)
		require.NotEmpty(t, why)
		require.True(t, wake.After(now), "no busy loop")
		if !resume {
			now = wake
			continue
		}
		r.noteAttempt(now)
		attempts = append(attempts, now.Sub(begin))
		r.noteRunning()
		now = now.Add(ran(now.Sub(begin)))
	}
	return attempts
}

func failsAtOnce(time.Duration) time.Duration { return 0 }

func seconds(list ...int) (times []time.Duration) {
	for _, s := range list {
		times = append(times, time.Duration(s)*time.Second)
	}
	return times
}

func TestABrokenDiskIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	broken := func(time.Duration) failedDisk {
		return failedDisk{drive: drive{name: "vm.drives[0]"}, cause: "write failed: EIO"}
	}
	require.Equal(t, seconds(10, 30, 70, 150, 310, 610, 910), rescue(t, 20*time.Minute, broken, failsAtOnce)[:7])
	calm := rescue(t, time.Hour, broken, func(time.Duration) time.Duration { return 2 * calmTime })
	require.Equal(t, seconds(10, 140, 270), calm[:3], "after a while of calm it begins anew")
}

// A full disk is not retried before there is space, and then immediately.
func TestAFullDiskWaitsForSpace(t *testing.T) {
	t.Parallel()
	full := func(free int64) failedDisk {
		return failedDisk{drive: drive{name: "vm.drives[0]"}, full: true, space: Space{true, free, 1000 * mib}}
	}
	freed := func(at time.Duration) failedDisk {
		switch {
		case at < time.Hour:
			return full(0)
		case at < 2*time.Hour:
			return full(10*mib - 1) // not enough space
		}
		return full(10 * mib)
	}
	require.Equal(t, []time.Duration{2 * time.Hour}, rescue(t, 3*time.Hour, freed, func(time.Duration) time.Duration {
		return time.Hour
	}))
	// The file system has space, but a quota may prevent its use.
	quota := func(time.Duration) failedDisk { return full(500 * mib) }
	require.Equal(t, seconds(10, 30, 70), rescue(t, 10*time.Minute, quota, failsAtOnce)[:3])
}

func TestTheReserveFitsTheFileSystem(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{32 * mib: mib, 1000 * mib: 10 * mib, 1 << 40: 64 * mib} {
		require.Equal(t, want, Space{Size: size}.reserveBytes())
	}
}

// Free space is checked only for a full file system, because it is meaningless for a device or a broken disk.
func TestSpaceIsLookedAtWhereItCounts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for what, d := range map[string]failedDisk{
		"a full device": {drive: drive{name: "vm.drives[0]"}, full: true, cause: "write failed"},
		"a broken disk": {drive: drive{name: "vm.drives[0]"}, cause: "read failed", space: Space{true, 0, 100 * mib}},
	} {
		resume, wake, why := new(recovery).decideResume([]failedDisk{d}, now)
		require.False(t, resume, what)
		require.Equal(t, now.Add(firstRetry), wake, what)
		require.Contains(t, why[0], d.cause+"; the VM is paused; next attempt at", what)
	}
}

// Waiting ends early as soon as there is just enough space.
func TestAFullDiskIsResumedAtOnce(t *testing.T) {
	t.Parallel()
	var r recovery
	now := time.Unix(1e9, 0)
	disk := failedDisk{drive: drive{name: "vm.drives[0]"}, full: true, space: Space{true, 5 * mib, 100 * mib}}
	for free, want := range map[int64]bool{5 * mib: false, 6*mib - 1: false, 6 * mib: true} {
		r = recovery{}
		r.decideResume([]failedDisk{disk}, now)
		later := disk
		later.space.Free = free
		resume, _, _ := r.decideResume([]failedDisk{later}, now.Add(time.Second))
		require.Equal(t, want, resume, "%d bytes are free", free)
	}
}

// A VM that its user has resumed waits again when its disk fails again. Attempts are counted until the VM has been
// running long enough.
func TestEachStopIsWaitedForAnew(t *testing.T) {
	t.Parallel()
	var r recovery
	now := time.Unix(1e9, 0)
	broken := []failedDisk{{drive: drive{name: "vm.drives[0]"}, cause: "write failed"}}
	r.decideResume(broken, now)
	r.noteRunning()
	_, wake, _ := r.decideResume(broken, now.Add(time.Hour))
	require.Equal(t, now.Add(time.Hour+firstRetry), wake)

	r.noteAttempt(wake)
	r.noteRunning()
	_, again, _ := r.decideResume(broken, wake.Add(calmTime))
	require.Equal(t, wake.Add(calmTime+2*firstRetry), again)
}

// A VM with two failed disks is resumed only if both are worth a try.
func TestTwoFailedDisks(t *testing.T) {
	t.Parallel()
	var r recovery
	now := time.Unix(1e9, 0)
	list := []failedDisk{
		{drive: drive{"vm.drives[0]", "/a"}, full: true, space: Space{true, 0, 100 * mib}},
		{drive: drive{"vm.drives[1]", "/b"}, cause: "read failed"},
	}
	resume, wake, why := r.decideResume(list, now)
	require.False(t, resume)
	require.Equal(t, now.Add(spacePoll), wake)
	require.Equal(t, []string{
		"vm.drives[0], /a: no space left on its file system; the VM is paused until 1 MiB more are free",
		"vm.drives[1], /b: read failed; the VM is paused; next attempt at 01:46:50Z",
	}, why)
	resume, _, _ = r.decideResume(list, now.Add(time.Hour))
	require.False(t, resume, "still full")
	list[0].space.Free = 50 * mib
	resume, _, _ = r.decideResume(list, now.Add(time.Hour))
	require.True(t, resume)
	resume, _, why = new(recovery).decideResume(nil, now)
	require.False(t, resume)
	require.Equal(t, []string{"QEMU does not report which drive has failed; the VM is paused until 01:46:50Z"}, why)
}

func TestTheFaultLog(t *testing.T) {
	t.Parallel()
	var l faultLog
	now := time.Unix(1e9, 0)
	l.addFault(fault{reason: vmstatus.ReasonIOError, subject: "vm.drives[0], /a", text: "read failed"}, now)
	l.addFault(fault{reason: vmstatus.ReasonGuestPanicked, text: "panic", lasting: true}, now)
	l.addFault(fault{reason: vmstatus.ReasonIOError, subject: "vm.drives[0], /a", text: "write failed"},
		now.Add(time.Minute))
	require.Equal(t, []string{"vm.drives[0], /a: write failed (2 times, last at 01:47:40Z)"},
		l.faultMessages(vmstatus.ReasonIOError))
	require.Len(t, l.unloggedFaults(), 2)
	require.Empty(t, l.unloggedFaults())
	l.addFault(fault{reason: vmstatus.ReasonGuestPanicked, text: "panic", lasting: true}, now)
	require.Len(t, l.unloggedFaults(), 1)
	end := now.Add(time.Minute + quietTime)
	require.Equal(t, end, l.expireFaults(now.Add(quietTime)))
	require.Zero(t, l.expireFaults(end))
	require.Empty(t, l.faultMessages(vmstatus.ReasonIOError))
	l.forgetKind(vmstatus.ReasonGuestPanicked)
	require.Empty(t, l.entries)
	for i := range 1000 {
		l.addFault(fault{reason: vmstatus.ReasonIOError, subject: strings.Repeat("x", i)}, now)
	}
	require.Len(t, l.entries, maxFaults)
}
