package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

const mib = 1 << 20

// rescue plays a machine that stops whenever its disk fails, and returns the
// times, in seconds, at which it was let go on. ran is how long the machine
// runs before the disk fails again; it is not called when the disk works.
func rescue(t *testing.T, end time.Duration, disk func(at time.Duration) standstill, ran func(at time.Duration) time.Duration) (attempts []time.Duration) {
	t.Helper()
	var r recovery
	begin := time.Unix(1e9, 0)
	for now := begin; now.Sub(begin) < end; {
		goOn, wake, why := r.next([]standstill{disk(now.Sub(begin))}, now)
		require.NotEmpty(t, why)
		require.True(t, wake.After(now), "no busy loop")
		if !goOn {
			now = wake
			continue
		}
		r.tries(now)
		attempts = append(attempts, now.Sub(begin))
		r.runs()
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
	broken := func(time.Duration) standstill {
		return standstill{drive: drive{name: "vm.drives[0]"}, cause: "write failed: EIO"}
	}
	require.Equal(t, seconds(10, 30, 70, 150, 310, 610, 910), rescue(t, 20*time.Minute, broken, failsAtOnce)[:7])
	calm := rescue(t, time.Hour, broken, func(time.Duration) time.Duration { return 2 * calmTime })
	require.Equal(t, seconds(10, 140, 270), calm[:3], "after a while of calm it begins anew")
}

// A full disk is not tried before there is space, and then at once.
func TestAFullDiskWaitsForSpace(t *testing.T) {
	t.Parallel()
	full := func(free int64) standstill {
		return standstill{drive: drive{name: "vm.drives[0]"}, full: true, space: space{true, free, 1000 * mib}}
	}
	freed := func(at time.Duration) standstill {
		switch {
		case at < time.Hour:
			return full(0)
		case at < 2*time.Hour:
			return full(10*mib - 1) // not enough
		}
		return full(10 * mib)
	}
	require.Equal(t, []time.Duration{2 * time.Hour}, rescue(t, 3*time.Hour, freed, func(time.Duration) time.Duration { return time.Hour }))
	// The file system has space, but the disk may not have it: there is a quota.
	quota := func(time.Duration) standstill { return full(500 * mib) }
	require.Equal(t, seconds(10, 30, 70), rescue(t, 10*time.Minute, quota, failsAtOnce)[:3])
}

func TestTheReserveFitsTheFileSystem(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int64{32 * mib: mib, 1000 * mib: 10 * mib, 1 << 40: 64 * mib} {
		require.Equal(t, want, space{size: size}.reserve())
	}
}

// All disks must be worth a try.
func TestTwoFailedDisks(t *testing.T) {
	t.Parallel()
	var r recovery
	now := time.Unix(1e9, 0)
	list := []standstill{
		{drive: drive{"vm.drives[0]", "/a"}, full: true, space: space{true, 0, 100 * mib}},
		{drive: drive{"vm.drives[1]", "/b"}, cause: "read failed"},
	}
	goOn, wake, why := r.next(list, now)
	require.False(t, goOn)
	require.Equal(t, now.Add(spacePoll), wake)
	require.Equal(t, []string{
		"vm.drives[0], /a: no space left on its file system; the VM waits, and goes on when 1 MiB more are free",
		"vm.drives[1], /b: read failed; the VM waits, and goes on with another try at 01:46:50Z",
	}, why)
	goOn, _, _ = r.next(list, now.Add(time.Hour))
	require.False(t, goOn, "still full")
	list[0].space.free = 50 * mib
	goOn, _, _ = r.next(list, now.Add(time.Hour))
	require.True(t, goOn)
	goOn, _, why = new(recovery).next(nil, now)
	require.False(t, goOn)
	require.Equal(t, []string{"QEMU doesn't say which drive has failed; the VM waits until 01:46:50Z"}, why)
}

func TestALedger(t *testing.T) {
	t.Parallel()
	var l ledger
	now := time.Unix(1e9, 0)
	l.add(note{reason: status.IOError, subject: "vm.drives[0], /a", text: "read failed"}, now)
	l.add(note{reason: status.GuestPanicked, text: "panic", lasting: true}, now)
	l.add(note{reason: status.IOError, subject: "vm.drives[0], /a", text: "write failed"}, now.Add(time.Minute))
	require.Equal(t, []string{"vm.drives[0], /a: write failed (2 times, last at 01:47:40Z)"}, l.messages(status.IOError))
	require.Len(t, l.fresh(), 2)
	require.Empty(t, l.fresh())
	l.add(note{reason: status.GuestPanicked, text: "panic", lasting: true}, now)
	require.Len(t, l.fresh(), 1)
	end := now.Add(time.Minute + quietTime)
	require.Equal(t, end, l.expire(now.Add(quietTime)))
	require.Zero(t, l.expire(end))
	require.Empty(t, l.messages(status.IOError))
	l.forget(status.GuestPanicked)
	require.Empty(t, l.notes)
	for i := range 1000 {
		l.add(note{reason: status.IOError, subject: strings.Repeat("x", i)}, now)
	}
	require.Len(t, l.notes, maxNotes)
}

func TestDrivesAreNamedAsInTheConfiguration(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Drives: []plan.Drive{
		{Index: 0, Device: "cd0", Nodes: []string{"cd0-medium"}},
		{Index: 1, Device: "disk0", Nodes: []string{"disk0-format", "disk0-file"}, File: "/a.img"},
		{Index: 2, Nodes: []string{"x"}, File: "/dev/sdx"},
		{Index: plan.NotInConfiguration, Device: "cloud-init", Nodes: []string{"seed"}, File: "/seed.img"},
		{Index: plan.NotInConfiguration, Nodes: []string{"fw-rom", "fw-rom-file"}, File: "/rom.fd"},
	}}
	for _, row := range []struct{ device, node, want string }{
		{"cd0-medium", "", "vm.drives[0]"},
		{"/machine/peripheral/cd0", "#block123", "vm.drives[0]"},
		{"/machine/peripheral/disk0/virtio-backend", "disk0-format", "vm.drives[1], /a.img"},
		{"/machine/peripheral-anon/device[0]", "disk0-file", "vm.drives[1], /a.img"},
		{"", "x", "vm.drives[2], /dev/sdx"},
		{"", "seed", "cloud-init, /seed.img"},
		{"", "fw-rom", "fw-rom, /rom.fd"},
		{"stranger", "", "stranger"},
		{"", "stranger", "stranger"},
		{"", "", "a drive"},
	} {
		require.Equal(t, row.want, driveOf(p, row.device, row.node).String())
	}
}
