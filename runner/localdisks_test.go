package runner_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/handover"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/vmstatus"
)

// recorderDisk makes the disk of a guest that writes records.
func recorderDisk(t *testing.T) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Recorder(), 0o600))
	return disk
}

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

// hasAllRecords requires that the disk of a VM that has been stopped has what the guest has said.
func (c *counting) hasAllRecords(disk, format string) {
	c.t.Helper()
	said := c.counts()
	raw := filepath.Join(c.t.TempDir(), "raw")
	out, err := exec.CommandContext(c.t.Context(), "qemu-img", "convert", "-f", format, "-O", "raw", disk,
		raw).CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	text, err := os.ReadFile(raw)
	require.NoError(c.t, err)
	last := guest.LastRecord(text) // it may have said more than was heard
	require.GreaterOrEqual(c.t, last, uint32(said[len(said)-1]))
	require.NoError(c.t, guest.CheckRecords(text, last))
}

// A guest moves with its disk, to another format, and back again.
func TestAGuestMovesWithItsDisk(t *testing.T) {
	t.Parallel()
	disk, copied := recorderDisk(t), filepath.Join(t.TempDir(), "copied.qcow2")
	const serial = ", serial: records, bootindex: 1}]"
	from := newCounting(t, disk, "drives: [{file: "+disk+serial)
	to := newCounting(t, copied, "drives: [{file: "+copied+", format: qcow2"+serial)
	from.runs()
	from.hears()
	from.counted()
	var copies []control.MigrationProgress
	err := from.client().Migrate(t.Context(), control.MigrationRequest{Invitation: to.awaitsDisks()},
		func(p control.MigrationProgress) {
			if p.DiskTotal > 0 {
				copies = append(copies, p)
			}
		})
	require.NoError(t, err)
	require.NotEmpty(t, copies)
	outcome, err := from.wait()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseMoved, outcome.Cause)
	to.log.await(t, to.ended, "the guest was received, and continues here")
	to.hears()
	to.counted()
	to.becomes("running", func(s status.Status) bool { return s.QEMU.RunState == "running" })

	// Back: what is there stays, and then it makes way.
	err = to.migrates(t.Context(), from.awaitsDisks())
	require.ErrorContains(t, err, disk+" is not the disk of the guest that is to come: no QEMU has it open; disks are copied "+
		"only to files that are not there: move it away")
	_, err = from.wait()
	require.Error(t, err)
	to.counted()
	require.NoError(t, os.Remove(disk))
	require.NoError(t, to.migrates(t.Context(), from.awaitsDisks()))
	_, err = to.wait()
	require.NoError(t, err)
	back := &counting{vm: from.vm}
	back.hears()
	back.counted()
	require.Greater(t, back.counts()[0], to.counts()[0])
	_, err = from.stop()
	require.NoError(t, err)
	back.hasAllRecords(disk, "raw")
	for _, folder := range []string{filepath.Dir(disk), filepath.Dir(copied)} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing but the images")
	}
	from.nothingLeft()
}

// device returns a block device that is blank.
func device(t *testing.T, file string, size int64) string {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "device")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Truncate(file, size))
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	require.NoError(t, err, "losetup, as root: %s", out)
	name := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		_ = exec.CommandContext(context.WithoutCancel(t.Context()), "losetup", "--detach", name).Run()
	})
	return name
}

// A disk goes to a block device that is blank, and to no other: what is there stays, and so does the guest.
func TestAGuestMovesToABlockDevice(t *testing.T) {
	t.Parallel()
	disk := recorderDisk(t)
	const serial = ", serial: records, bootindex: 1}]"
	on := func(device string) *counting { return newCounting(t, "", "drives: [{device: "+device+serial) }
	from := newCounting(t, disk, "drives: [{file: "+disk+serial)
	from.runs()
	from.hears()
	from.counted()
	full := filepath.Join(t.TempDir(), "full")
	text := append(make([]byte, guest.RecorderSize-1), 1) // only its end has something
	require.NoError(t, os.WriteFile(full, text, 0o600))
	for why, name := range map[string]string{
		"is not blank":                              device(t, full, 0),
		"the disk that is to be copied there":       device(t, "", guest.RecorderSize+512),
		"is not blank: what is there would be over": device(t, disk, 0), // the very disk of the guest
	} {
		to := on(name)
		require.ErrorContains(t, from.migrates(t.Context(), to.awaitsDisks()), why)
		_, err := to.wait()
		require.ErrorContains(t, err, why)
		from.counted()
	}
	kept, err := os.ReadFile(full)
	require.NoError(t, err)
	require.True(t, bytes.Equal(text, kept))

	// One that was half written to is blank again.
	blank := device(t, "", guest.RecorderSize)
	to := on(blank)
	ctx, cancel := context.WithCancel(t.Context())
	request := control.MigrationRequest{Invitation: to.awaitsDisks(), Bandwidth: 1 << 20}
	err = from.client().Migrate(ctx, request, func(p control.MigrationProgress) {
		if p.DiskCopied > 2<<20 {
			cancel()
		}
	})
	require.Error(t, err)
	_, err = to.wait()
	require.Error(t, err)
	from.counted()
	empty, _, err := handover.IsBlank(blank, os.O_RDONLY)
	require.NoError(t, err)
	require.True(t, empty)

	to = on(blank)
	require.NoError(t, from.migrates(t.Context(), to.awaitsDisks()))
	to.log.await(t, to.ended, "the guest was received, and continues here")
	to.hears()
	to.counted()
	_, err = to.stop()
	require.NoError(t, err)
	to.hasAllRecords(blank, "raw")
}

// Each disk of a VM is judged by itself: what is shared stays where it is, and the others are copied, one beside the
// other.
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
	boot := recorderDisk(t)
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
	_, err = to.stop()
	require.NoError(t, err)
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
