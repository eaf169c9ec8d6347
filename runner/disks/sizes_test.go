package disks

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A changed size counts only after it has stayed the same for a while, however often it is measured.
func TestASizeThatChangesIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := &Sizes{disks: map[int]*hostDisk{0: {}, 2: {}}, settled: map[int]int64{}}
	steps := []struct {
		after           time.Duration
		first, second   int64
		changed, moving bool
		settled         map[int]int64
	}{
		{0, 10, 20, false, true, map[int]int64{}},
		{time.Second, 10, 20, false, true, map[int]int64{}},
		{settleTime - time.Second, 10, 20, true, false, map[int]int64{0: 10, 2: 20}},
		{time.Minute, 10, 20, false, false, map[int]int64{0: 10, 2: 20}},
		{time.Minute, 11, 20, false, true, map[int]int64{0: 10, 2: 20}},
		{settleTime, 12, 20, false, true, map[int]int64{0: 10, 2: 20}},
		{settleTime, 12, 19, true, true, map[int]int64{0: 12, 2: 20}},
		{settleTime, 12, 20, false, false, map[int]int64{0: 12, 2: 20}},
	}
	now := time.Unix(1_700_000_000, 0)
	for i, s := range steps {
		now = now.Add(s.after)
		changed, moving := d.recordSizes(map[int]int64{0: s.first, 2: s.second}, now)
		require.Equal(t, s.changed, changed, "step %d", i)
		require.Equal(t, s.moving, moving, "step %d", i)
		require.Equal(t, s.settled, d.settled, "step %d", i)
	}
	changed, moving := d.recordSizes(map[int]int64{2: 30}, now) // the other disk is unreachable
	require.False(t, changed)
	require.True(t, moving)
	require.Equal(t, map[int]int64{0: 12, 2: 20}, d.settled)
}

// A size that this program has given a disk counts immediately.
func TestOwnGrowthIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 1<<20))
	drive := vmspec.Drive{Type: vmspec.DriveRaw, Format: "raw", File: file}
	d := New([]vmspec.Drive{drive}, plan.Rules{plan.Disk{Drive: 0}}, slog.New(slog.DiscardHandler))
	now := time.Unix(1_700_000_000, 0)
	changed, _ := d.recordSizes(d.measureDisks(), now)
	require.False(t, changed)
	d.wanted[0].Size = 3 * vmspec.MiB
	changed, moving := d.recordSizes(d.measureDisks(), now)
	require.True(t, changed)
	require.False(t, moving)
	require.Equal(t, map[int]int64{0: 3 << 20}, d.settled)
}

// A file's size comes from its FileInfo. A device's size comes from the device, which must exist.
func TestHostSize(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	info, err := os.Stat(file)
	require.NoError(t, err)
	size, err := hostSize("/nowhere", info)
	require.NoError(t, err)
	require.EqualValues(t, 4, size)

	device, err := os.Stat(os.DevNull)
	require.NoError(t, err)
	size, err = hostSize(file, device)
	require.NoError(t, err)
	require.EqualValues(t, 4, size)
	_, err = hostSize("/nowhere", device)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Only disks that can grow on the host are watched.
func TestDisksThatAreLookedAt(t *testing.T) {
	t.Parallel()
	drives := []vmspec.Drive{
		{Type: vmspec.DriveRaw, Format: "raw", File: "/a"},
		{Type: vmspec.DriveRaw, Format: "qcow2", File: "/b"},
		{Type: vmspec.DriveRaw, Format: "raw", File: "/c", ReadOnly: true},
		{Type: vmspec.DriveIDECD, File: "/d"},
		{Type: vmspec.DriveRaw, Format: "raw", Device: "/e"},
	}
	rules := plan.Rules{
		plan.Disk{Drive: 0},
		plan.Disk{Drive: 1},
		plan.Medium{Drive: 3},
		plan.Disk{Drive: 3},
		plan.Disk{Drive: 4},
		plan.Disk{Drive: 9},
	}
	paths := map[int]string{}
	for i, disk := range New(drives, rules, slog.New(slog.DiscardHandler)).disks {
		paths[i] = disk.path
	}
	require.Equal(t, map[int]string{0: "/a", 4: "/e"}, paths)
}

// If a file replaces an image that QEMU has open, its size is ignored. The sizes of other disks still count.
func TestAnotherFileIsNotTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image := func(name string, size int64) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
		return path
	}
	disk, other := image("disk", 1), image("other", 2)
	var log bytes.Buffer
	d := &Sizes{
		disks: map[int]*hostDisk{0: {path: disk}, 1: {path: other}}, log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	require.Equal(t, map[int]int64{0: 1, 1: 2}, d.measureDisks())
	require.NoError(t, os.Rename(image("new", 5), disk))
	require.NoError(t, os.Truncate(other, 4))
	for range 2 {
		require.Equal(t, map[int]int64{1: 4}, d.measureDisks())
	}
	require.Equal(t, 1, strings.Count(log.String(), "the file of a disk was replaced; the VM keeps the one it has open"))
	require.NoError(t, os.Remove(disk))
	require.Equal(t, map[int]int64{1: 4}, d.measureDisks())
}
