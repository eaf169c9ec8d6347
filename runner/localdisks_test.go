package runner_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner"
	"vmop/test/guest"
)

// awaitsDisks starts a runner that waits for a guest and its disks.
func (v *vm) awaitsDisks() []byte {
	v.t.Helper()
	return v.awaitsBy(&runner.Receive{CopyDisks: true})
}

// awaitsBy starts a runner that waits for a guest.
func (v *vm) awaitsBy(receive *runner.Receive) []byte {
	v.t.Helper()
	v.receive = receive
	v.receive.Address, v.receive.Invitation = "127.0.0.1:0", v.path("invitation")
	v.log.forget()
	v.start()
	v.log.await(v.t, v.ended, "waiting for a guest")
	text, err := v.client().Invitation(v.t.Context())
	require.NoError(v.t, err)
	return text
}

// hasAllRecords requires that the disk of a stopped VM contains everything that the guest has reported.
func (c *counting) hasAllRecords(disk, format string) {
	c.t.Helper()
	said := c.counts()
	raw := filepath.Join(c.t.TempDir(), "raw")
	out, err := exec.CommandContext(c.t.Context(), "qemu-img", "convert", "-f", format, "-O", "raw", disk,
		raw).CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	text, err := os.ReadFile(raw)
	require.NoError(c.t, err)
	last := guest.LastRecord(text) // it may have printed more than was read
	require.GreaterOrEqual(c.t, last, uint32(said[len(said)-1]))
	require.NoError(c.t, guest.CheckRecords(text, last))
}

// Each disk of a VM is handled separately: shared disks stay, and the others are copied at the same time.
func TestAGuestMovesWithSomeOfItsDisks(t *testing.T) {
	t.Parallel()
	t.Run("those that are not there", func(t *testing.T) {
		t.Parallel()
		movesWithSome(t, func(to *counting, _ ...string) []byte { return to.awaitsDisks() })
	})
	t.Run("those that are named", func(t *testing.T) {
		t.Parallel()
		movesWithSome(t, func(to *counting, copies ...string) []byte {
			return to.awaitsBy(&runner.Receive{Copies: copies})
		})
	})
}

func movesWithSome(t *testing.T, awaits func(to *counting, copies ...string) []byte) {
	t.Helper()
	boot := diskOf(t, guest.Recorder())
	shared, large := filepath.Join(t.TempDir(), "shared"), filepath.Join(t.TempDir(), "large")
	there := t.TempDir()
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for _, name := range []string{shared, large} {
		require.NoError(t, os.WriteFile(name, text, 0o600))
		require.NoError(t, os.Truncate(name, 1<<30)) // a hole
	}
	drives := func(boot, large string) string {
		return "drives: [{file: " + shared + ", serial: a}, {file: " + boot + ", serial: b, bootindex: 1}, " +
			"{file: " + large + ", serial: c}]"
	}
	from := newCounting(t, boot, drives(boot, large))
	copies := []string{filepath.Join(there, "boot"), filepath.Join(there, "large")}
	to := newCounting(t, boot, drives(copies[0], copies[1]))
	from.runs()
	require.NoError(t, from.migrates(t.Context(), awaits(to, copies...)))
	_, err := from.wait()
	require.NoError(t, err)
	to.log.await(t, to.ended, "the guest was received, and continues here")
	to.hears()
	to.counted()
	to.ends()
	to.hasAllRecords(filepath.Join(there, "boot"), "raw")
	out, err := exec.CommandContext(t.Context(), "qemu-img", "compare", "-f", "raw", "-F", "raw", large,
		filepath.Join(there, "large")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var s unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(there, "large"), &s))
	require.Less(t, s.Blocks*512, int64(len(text)+1<<20), "the hole takes no room")
	entries, err := os.ReadDir(there)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	to.nothingLeft()
}
