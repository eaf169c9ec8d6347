package reconcile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// threePorts is a rule for disks, and the options that make its ports.
func threePorts() (plan.Disks, []string) {
	rule := plan.Disks{Driver: "virtio-blk-pci"}
	var options []string
	for n := range 3 {
		id := fmt.Sprintf("hotplug%d", n)
		rule.Buses = append(rule.Buses, id)
		options = append(options, "-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d,addr=0x1c.%d,multifunction=on",
			id, n+1, n))
	}
	return rule, options
}

// wanted returns a disk that is to be attached.
func wantedDisk(index int, file, serial string) reconcile.Drive {
	return reconcile.Drive{Index: index, Drive: vmspec.Drive{
		Type: vmspec.DriveRaw, File: file, Format: "raw", Serial: serial,
	}}
}

// states returns those of all disks, in their order.
func states(f reconcile.Facts) (list []string) {
	for _, d := range f.Drives {
		list = append(list, d.Name+" "+d.State)
	}
	return list
}

// become continues until the disks have these states.
func (l *live) become(want ...string) reconcile.Facts {
	l.t.Helper()
	return l.until(fmt.Sprint(want), func(f reconcile.Facts) bool { return slices.Equal(states(f), want) })
}

// nodes are the names of QEMU's block nodes that disks have been attached by.
func (l *live) nodes() string {
	return string(l.ask("query-named-block-nodes", map[string]any{"flat": true}))
}

// A real guest gets disks, writes to one, and releases them, also when the runner that has
// asked it to was killed.
func TestARealGuestGetsAndReleasesDisks(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	rule, options := threePorts()
	options = append(options, "-m", "256M",
		"-kernel", image.Kernel, "-initrd", image.Initrd, "-append", guest.CommandLine,
		"-chardev", "socket,id=c,path=DIR/c,server=on,wait=off", "-serial", "chardev:c")
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	var all []reconcile.Drive
	for i, serial := range []string{"data", "logs", "a-name-of-20-letters"} {
		file := filepath.Join(l.dir, serial)
		require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
		all = append(all, wantedDisk(i, file, serial))
	}
	l.want.Drives = []reconcile.Drive{}
	l.settles("nothing")
	c := l.console()
	l.ask("cont", nil)
	c.await(`TINY \S+ READY`)

	l.want.Drives = all[:1] // a guest names what comes at once in any order
	l.become("data Attached")
	c.tells("until [ -b /dev/vda ]; do usleep 100000; done; echo names $(cat /sys/block/vd?/serial)", "^names data")
	l.want.Drives = all
	f := l.become("data Attached", "logs Attached", "a-name-of-20-letters Attached")
	require.EqualValues(t, 1<<20, f.Drives[2].Capacity)
	c.tells("until [ -b /dev/vdc ]; do usleep 100000; done; echo names $(cat /sys/block/vd?/serial)",
		"^names data(logs)?a-name-of-20-letters(logs)?")
	c.tells("echo kept | dd of=/dev/vda conv=fsync 2>/dev/null; echo written", "^written")
	all[0].Size = 3 * vmspec.MiB
	l.want.Drives = slices.Clone(all)
	l.until("it grows", func(f reconcile.Facts) bool { return f.Drives[0].Capacity == 3<<20 })
	c.tells("until [ $(cat /sys/block/vda/size) = 6144 ]; do usleep 100000; done; echo grown", "^grown")

	again := func() { l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true}) }
	again()
	l.become("data Attached", "logs Attached", "a-name-of-20-letters Attached")
	other := wantedDisk(0, filepath.Join(l.dir, "other"), "data")
	l.want.Drives = []reconcile.Drive{other, all[1], all[2]}
	l.complains("vm.drives[0]: it is attached with another file")

	// The runner is killed when it has asked for the release.
	l.want.Drives = all[1:]
	l.until("the guest is asked", func(reconcile.Facts) bool {
		return slices.ContainsFunc(l.said, func(s string) bool { return strings.HasPrefix(s, "device_del ") })
	})
	again()
	l.become("logs Attached", "a-name-of-20-letters Attached")
	require.NotContains(t, l.nodes(), "-data")
	c.tells("while [ -b /dev/vda ]; do usleep 100000; done; echo names $(cat /sys/block/vd?/serial)",
		"^names (logs)?a-name-of-20-letters(logs)?")
	text, err := os.ReadFile(all[0].File)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text[:4]))

	l.want.Drives = all // its place is free again
	l.become("data Attached", "logs Attached", "a-name-of-20-letters Attached")
	// the node is there before the disk can be read
	c.tells("until head -c 4 /dev/vda 2>/dev/null; do usleep 100000; done; echo", "^kept")
	l.want.Drives = []reconcile.Drive{}
	l.become()
	require.NotContains(t, l.nodes(), "h0-")
}

// A guest that has no driver for it doesn't release a disk. A reset takes the disk from it, if
// not the file from QEMU.
func TestAGuestThatReleasesNothing(t *testing.T) {
	t.Parallel()
	rule, options := threePorts()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	file := filepath.Join(l.dir, "data")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	l.want.Drives = []reconcile.Drive{}
	l.settles("nothing")
	l.ask("cont", nil) // there is no system, only firmware
	l.want.Drives = []reconcile.Drive{wantedDisk(0, filepath.Join(l.dir, "none"), "data")}
	require.Equal(t, []string{"data Failed"}, states(l.complains("vm.drives[0]: attach the disk: open")))
	l.want.Drives = []reconcile.Drive{wantedDisk(0, file, "data")}
	l.become("data Attached")
	l.want.Drives = []reconcile.Drive{}
	f := l.until("the guest is asked", func(f reconcile.Facts) bool {
		return len(f.Drives) == 1 && f.Drives[0].Message != ""
	})
	require.Equal(t, status.Drive{
		Name: "data", State: status.DriveDetaching, Capacity: 1 << 20,
		Message: "waiting for the guest to release the disk",
	}, f.Drives[0])
	l.ask("system_reset", nil)
	l.until("the disk is gone", func(f reconcile.Facts) bool {
		return len(f.Drives) == 0 || f.Drives[0].State == status.DriveFailed // its file may stay open
	})
}

// A revision is reported only with all the disks that the machine has by it.
func TestTheRevisionOfTheDrives(t *testing.T) {
	t.Parallel()
	rule, options := threePorts()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	file := filepath.Join(l.dir, "data")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	reported := func(revision int64) []string {
		l.want.DrivesRevision = revision
		return states(l.until(fmt.Sprint("revision ", revision), func(f reconcile.Facts) bool {
			return int64(f.DrivesRevision) == revision
		}))
	}
	l.want.Drives = []reconcile.Drive{}
	require.Empty(t, reported(5))
	l.ask("cont", nil) // there is no system that would release a disk, only firmware
	l.want.Drives = []reconcile.Drive{wantedDisk(0, file, "data")}
	require.Len(t, reported(6), 1)
	l.become("data Attached")

	// Before the next runner has asked QEMU, it doesn't know that there is a disk to detach.
	l.want.Drives, l.want.DrivesRevision = []reconcile.Drive{}, 7
	l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true})
	asked := reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true})
	require.NotEmpty(t, asked.Next(l.want, time.Now()).Requests)
	require.Empty(t, asked.Facts().Drives)
	require.Zero(t, asked.Facts().DrivesRevision)
	require.Equal(t, []string{"data Detaching"}, reported(7))
}
