package runner_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
)

// has waits until the VM has a number of attached disks in a state.
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

// A guest with an attached disk is not migrated if the target lacks the disk.
func TestAGuestStaysWithItsAttachedDisk(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, guest.Counter(false))
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

// After a migration, Linux finds its attached CD drives in the same places, reads data that it had not read, and keeps
// the drive with the locked tray.
func TestCDDrivesMoveWithTheGuest(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for vmType, image := range map[string]guest.Image{"standard": guest.PC(t), "cloud": guest.Tiny(t)} {
		t.Run(vmType, func(t *testing.T) {
			t.Parallel()
			defer guest.TakePlace(t)()
			section := append(boots(image, ""), "network: []")
			from, without, to := newVM(t, vmType, section...), newVM(t, vmType, section...), newVM(t, vmType)
			cds := func(serials ...string) []string {
				var list []string
				for _, serial := range serials {
					list = append(list, "{type: ide-cd, file: "+from.path(serial)+", serial: "+serial+"}")
				}
				return append(slices.Clone(section), "drives: ["+strings.Join(list, ", ")+"]")
			}
			for _, serial := range []string{"first", "second", "third"} {
				require.NoError(t, os.WriteFile(from.path(serial), bytes.Repeat([]byte(serial+"\n"), 1<<20), 0o600))
			}
			c := attach(from)
			from.runs()
			c.Await(`READY`)
			from.configure(vmType, nil, cds("first", "second")...)
			from.has(2, status.DriveAttached)
			c.Type("sh until head -n 1 /dev/sr1 2>/dev/null; do usleep 100000; done")
			c.Await(`^second$`)
			from.configure(vmType, nil, cds("second")...)
			from.has(1, status.DriveAttached)
			c.Type("sh sleep 1000 </dev/sr1 >/dev/null 2>&1 & echo pid=$!")
			pid := c.Await(`^pid=(\d+)`)[1]
			c.Type("sh until [ -b /proc/" + pid + "/fd/0 ]; do usleep 10000; done; echo locked")
			c.Await(`^locked$`)

			err := from.migrates(t.Context(), without.receives())
			require.ErrorContains(t, err, "the guest has a CD drive with the serial number second, which was attached while it ran, "+
				"and vm.drives has none here that is like it")
			_, err = without.wait()
			require.Error(t, err)
			to.configure(vmType, nil, cds("second")...)
			require.NoError(t, from.migrates(t.Context(), to.receives()))
			to.has(1, status.DriveAttached)
			to.configure(vmType, nil, cds("second", "third")...)
			to.has(2, status.DriveAttached)
			there := &console{t: t}
			require.NoError(t, there.open(t.Context(), to.path("run")))
			there.Type("sh tail -n 1 /dev/sr1; until head -n 1 /dev/sr0 2>/dev/null; do usleep 100000; done")
			there.Await(`^second$`)
			there.Await(`^third$`)
			to.configure(vmType, nil, cds("third")...)
			to.becomes("locked", func(s status.Status) bool {
				return slices.ContainsFunc(s.Drives, func(d status.Drive) bool {
					return d.Message == "waiting for the guest to open the tray, which it has locked"
				})
			})
			there.Type("sh kill " + pid + "; while [ -b /dev/sr1 ]; do usleep 100000; done; echo gone")
			there.Await(`^gone$`)
			to.has(1, status.DriveAttached)
			to.ends()
		})
	}
}
