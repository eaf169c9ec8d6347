package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate/handover"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// beginWithDisk starts a VM with a guest that writes records to its own disk, and a runner that waits for both.
func beginWithDisk(t *testing.T, format string) *journey {
	t.Helper()
	section := []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 0",
		"drives: [{file: PATH/disk." + format + ", format: " + format + ", serial: records, bootindex: 1}]",
	}
	j := newJourney(t, "standard", section, "--copy-disks")
	raw := filepath.Join(t.TempDir(), "raw")
	require.NoError(t, os.WriteFile(raw, guest.Recorder(), 0o600))
	convertDisk(t, raw, "raw", filepath.Join(j.fromDir, "disk."+format), format)
	return j.begins("--log-level", "debug")
}

func convertDisk(t *testing.T, from, format, to, toFormat string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", format, "-O", toFormat, from,
		to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// disksOf returns the images in a folder, and other files that a migration has created there.
func disksOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), "disk.") {
			names = append(names, e.Name())
		}
	}
	return names
}

// hasAllRecords requires that the guest of a folder has lost no data, and ends its VM.
func hasAllRecords(t *testing.T, dir, format string, p *program) {
	t.Helper()
	c := console(t, dir)
	c.await(`[0-9a-f]{8}\n[0-9a-f]{8}\n`)
	said := strings.Fields(c.out.out.String())
	p.ends()
	require.NotContains(t, c.out.out.String(), guest.RecorderFails)
	raw := filepath.Join(t.TempDir(), "raw")
	convertDisk(t, filepath.Join(dir, "disk."+format), format, raw, "raw")
	text, err := os.ReadFile(raw)
	require.NoError(t, err)
	least, err := strconv.ParseUint(said[len(said)-1], 16, 32)
	require.NoError(t, err)
	last := guest.LastRecord(text) // it may have printed more than was read
	require.GreaterOrEqual(t, last, uint32(least))
	require.NoError(t, guest.CheckRecords(text, last))
}

// A guest is migrated with its disk, and its runner reports the progress of the copy.
func TestADiskIsMigrated(t *testing.T) {
	t.Parallel()
	j := beginWithDisk(t, "qcow2")
	j.moves()
	require.Equal(t, []string{"disk.qcow2"}, disksOf(t, j.toDir))
	hasAllRecords(t, j.toDir, "qcow2", j.receiving)
	invariants.NothingLeft(t, j.toDir)
	invariants.NothingLeft(t, j.fromDir)
}

// Without the option the disk is not copied, and the error names the option.
func TestADiskThatIsNotThereIsNotCopiedUnasked(t *testing.T) {
	t.Parallel()
	j := beginWithDisk(t, "raw")
	j.receiving.signal(syscall.SIGTERM)
	require.Equal(t, 143, j.receiving.exit())
	j.receiveArgs = nil
	j.expects()
	out, err := j.migrate()
	require.Error(t, err)
	require.Contains(t, out, "no such file or directory; receive --copy-disks copies missing disks")
	require.Equal(t, 1, j.receiving.exit())
	require.Empty(t, disksOf(t, j.toDir))
	hasAllRecords(t, j.fromDir, "raw", j.sending)
}

// Either runner may be killed at any moment: exactly one guest runs, with all written data, and no incomplete file can
// be mistaken for its disk.
func TestARunnerIsKilledWhileADiskIsMigrated(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	moments := append(killMoments(), killMoment{"source", `event=BLOCK_JOB_READY`},
		killMoment{"source", `command="blockdev-mirror`}, killMoment{"target", `command="block-export-add`})
	for _, c := range moments {
		t.Run(c.side+" "+strings.Trim(c.at, `"`), func(t *testing.T) {
			t.Parallel()
			j := beginWithDisk(t, "raw")
			if j.killsOne(c.side, c.at) {
				wait.Until(t, func() bool { return len(disksOf(t, j.toDir)) == 1 })
				hasAllRecords(t, j.toDir, "raw", j.receiving)
				return
			}
			wait.Until(t, func() bool {
				note, err := handover.Read(filepath.Join(j.toDir, "data"))
				require.NoError(t, err)
				return len(disksOf(t, j.toDir)) == 0 || note.Whole // the source may have ended
			})
			hasAllRecords(t, j.fromDir, "raw", j.sending)
		})
	}
}
