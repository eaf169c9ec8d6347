//go:build newerqemu

package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/vmstatus"
)

// located returns a VM that uses the QEMU in a folder of programs.
func located(t *testing.T, programs, disk string) *counting {
	t.Helper()
	v := newCounting(t, disk)
	v.configure("located", nil, "accelerator: tcg", "firmware: bios", "network: []",
		"maximumRam: 64 MiB", "maximumCpus: 4", "currentCpus: 1", "powerdownTimeout: 0", "useTpm: true",
		"drives: [{file: "+disk+", bootindex: 1}]",
		"options: {qemu: "+filepath.Join(programs, "qemu-system-x86_64")+"}")
	return v
}

// both returns a VM with the older QEMU and a VM with the newer. tools/scripts/newer-qemu installs both.
func both(t *testing.T) (older, newer *counting) {
	t.Helper()
	folder := os.Getenv("VMOP_OLDER_QEMU")
	require.NotEmpty(t, folder, "make test-newer-qemu")
	disk := diskOf(t, guest.Counter(false))
	return located(t, folder+"/bin", disk), located(t, "/usr/bin", disk)
}

// goes moves a guest to another runner.
func (c *counting) goes(to *counting) {
	c.t.Helper()
	require.NoError(c.t, c.migrates(c.t.Context(), to.receives()))
	outcome, err := c.wait()
	require.NoError(c.t, err)
	require.Equal(c.t, vmstatus.CauseMoved, outcome.Cause)
	to.log.await(c.t, to.ended, "the guest was received, and continues here")
	to.hears()
	to.counted()
}

// A guest moves to a newer QEMU, where its machine keeps its version, so that it can move back.
func TestAGuestMovesToANewerQEMU(t *testing.T) {
	t.Parallel()
	older, newer := both(t)
	older.runs()
	older.hears()
	older.counted()
	older.goes(newer)
	newer.goes(older)
	_, err := older.stop()
	require.NoError(t, err)
	older.nothingLeft()
}

// An older QEMU lacks the machine version of a newer QEMU. It refuses the guest, which stays.
func TestAnOlderQEMURefusesANewerMachine(t *testing.T) {
	t.Parallel()
	older, newer := both(t)
	newer.runs()
	newer.hears()
	newer.counted()
	const want = "which this QEMU doesn't have (is it an older one?)"
	err := newer.migrates(t.Context(), older.receives())
	require.ErrorContains(t, err, want)
	_, err = older.wait()
	require.ErrorContains(t, err, want)
	newer.counted()
	_, err = newer.stop()
	require.NoError(t, err)
	newer.nothingLeft()
}
