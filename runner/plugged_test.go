package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// has waits until disks that were attached to the VM are in a state, so many.
func (v *vm) has(count int, state string) {
	v.t.Helper()
	v.becomes(state, func(s status.Status) bool {
		for _, d := range s.Drives {
			if d.State != state {
				return false
			}
		}
		return len(s.Drives) == count
	})
}

// A guest with a disk that it has got while it ran stays where the target has no such disk.
func TestAGuestStaysWithItsAttachedDisk(t *testing.T) {
	t.Parallel()
	disk := counterDisk(t)
	boot := "{file: " + disk + ", bootindex: 1}"
	from := newCounting(t, disk)
	from.runs()
	own := func(drives string) []string {
		return []string{
			"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "maximumCpus: 4",
			"powerdownTimeout: 0", "drives: [" + boot + drives + "]",
		}
	}
	from.configure("standard", nil, own(", {file: data.img, size: 1 MiB, serial: data}")...)
	from.has(1, status.DriveAttached)
	from.hears()
	const none = "the guest has a disk with the serial number data, which was attached while it ran, and vm.drives has none " +
		"here that is like it"
	data := ", {file: " + from.path("data.img")
	for _, c := range []struct{ drives, why string }{
		{"", none},
		{data + ", serial: other}", "the guest would have other hardware: with -device virtio-blk-pci,"},
		{data + ", serial: data, readOnly: true}", none},
		{", {file: absent.img, serial: data}", "vm.drives[1]: open "},
		{", {file: absent.img, size: 1 MiB, serial: data}", "vm.drives[1]: open "},
	} {
		to := newCounting(t, disk)
		to.configure("standard", nil, own(c.drives)...)
		err := from.migrates(t.Context(), to.receives())
		require.ErrorContains(t, err, c.why)
		_, err = to.wait()
		require.ErrorContains(t, err, c.why)
		to.nothingLeft()
		require.NoFileExists(t, to.path("absent.img"))
		from.counted()
	}

	from.configure("standard", nil, own(", {file: other.img, size: 1 MiB, serial: data}")...)
	from.becomes("another file", func(s status.Status) bool { return len(s.Problems) == 1 })
	to := newCounting(t, disk)
	invitation := to.receives()
	require.EqualError(t, from.migrates(t.Context(), invitation), "the guest cannot be moved: its disk data is "+
		"attached with another file, format or readOnly than vm.drives[1] has")
	from.configure("standard", nil, own("")...)
	from.has(1, status.DriveDetaching) // the guest has no driver
	require.EqualError(t, from.migrates(t.Context(), invitation), "the guest cannot be moved: its disk data is to be "+
		"detached, and the guest has not released it yet")
	from.counted()
}
