package reconcile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// threePorts returns a rule for disks and the options that create its ports.
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

// wantedDisk returns a disk to attach.
func wantedDisk(index int, file, serial string) reconcile.Drive {
	return reconcile.Drive{Index: index, Drive: vmspec.Drive{
		Type: vmspec.DriveRaw, File: file, Format: "raw", Serial: serial,
	}}
}

// states returns the states of all disks in order.
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

// nodes returns the names of QEMU's block nodes of attached disks.
func (l *live) nodes() string {
	return string(l.ask("query-named-block-nodes", map[string]any{"flat": true}))
}

// A guest without a driver does not release a disk. A reset removes the disk from the guest, but QEMU may keep its file
// open.
func TestAGuestThatReleasesNothing(t *testing.T) {
	t.Parallel()
	rule, options := threePorts()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	file := filepath.Join(l.qemu.Dir, "data")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	l.want.Drives = []reconcile.Drive{}
	l.settles("nothing")
	l.ask("cont", nil) // there is only firmware
	l.want.Drives = []reconcile.Drive{wantedDisk(0, filepath.Join(l.qemu.Dir, "none"), "data")}
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

// A revision is reported only when the machine has all the disks of that revision.
func TestTheRevisionOfTheDrives(t *testing.T) {
	t.Parallel()
	rule, options := threePorts()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	file := filepath.Join(l.qemu.Dir, "data")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	reported := func(revision int64) []string {
		l.want.DrivesRevision = revision
		return states(l.until(fmt.Sprint("revision ", revision), func(f reconcile.Facts) bool {
			return int64(f.DrivesRevision) == revision
		}))
	}
	l.want.Drives = []reconcile.Drive{}
	require.Empty(t, reported(5))
	l.ask("cont", nil) // only firmware, which never releases a disk
	l.want.Drives = []reconcile.Drive{wantedDisk(0, file, "data")}
	require.Len(t, reported(6), 1)
	l.become("data Attached")

	// The next runner does not know about the disk to detach until it has queried QEMU.
	l.want.Drives, l.want.DrivesRevision = []reconcile.Drive{}, 7
	l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true})
	asked := reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true})
	require.NotEmpty(t, asked.Next(l.want, time.Now()).Requests)
	require.Empty(t, asked.Facts().Drives)
	require.Zero(t, asked.Facts().DrivesRevision)
	require.Equal(t, []string{"data Detaching"}, reported(7))
}
