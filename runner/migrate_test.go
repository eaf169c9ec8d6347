package runner_test

import (
	"bufio"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// counting is a VM with a guest that counts, and the guest's output.
type counting struct {
	*vm

	mu   sync.Mutex
	said []uint64
}

// newCounting returns a VM with a disk, which other VMs may share.
func newCounting(t *testing.T, disk string, section ...string) *counting {
	t.Helper()
	for _, line := range []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "maximumCpus: 4",
		"powerdownTimeout: 0",
		"drives: [{file: " + disk + ", bootindex: 1}]",
	} {
		key, _, _ := strings.Cut(line, ":")
		if !slices.ContainsFunc(section, func(own string) bool { return strings.HasPrefix(own, key+":") }) {
			section = append(section, line)
		}
	}
	return &counting{vm: newVM(t, "standard", section...)}
}

// hears reads the guest's output from now on.
func (c *counting) hears() {
	c.t.Helper()
	conn, err := openConsole(c.t.Context(), c.path("run"))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { conn.Close() })
	go func() {
		for scan := bufio.NewScanner(conn); scan.Scan(); {
			if n, err := strconv.ParseUint(scan.Text(), 16, 32); err == nil && len(scan.Text()) == guest.CounterLength {
				c.mu.Lock()
				c.said = append(c.said, n)
				c.mu.Unlock()
			}
		}
	}()
}

func (c *counting) counts() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]uint64{}, c.said...)
}

// counted waits until the guest has counted on.
func (c *counting) counted() {
	c.t.Helper()
	before := len(c.counts())
	wait.Until(c.t, func() bool { return len(c.counts()) > before+3 })
}

// receives starts a runner that waits for the guest of another runner, and returns its invitation.
func (v *vm) receives() []byte {
	v.t.Helper()
	v.receive = &runner.Receive{Address: "127.0.0.1:0", Invitation: v.path("invitation"), Migration: "m-1"}
	v.start()
	v.log.await(v.t, v.ended, "waiting for a guest")
	text, err := v.client().Invitation(v.t.Context())
	require.NoError(v.t, err)
	require.JSONEq(v.t, v.read("invitation"), string(text))
	return text
}

// migrates migrates the guest.
func (v *vm) migrates(ctx context.Context, invitation []byte) error {
	v.t.Helper()
	return v.client().Migrate(ctx, control.MigrationRequest{Invitation: invitation}, func(vmstatus.Progress) {})
}

func TestAGuestMovesToAnotherRunner(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, guest.Counter(false))
	from, to := newCounting(t, disk, "currentCpus: 2"), newCounting(t, disk)
	from.runs()
	from.hears()
	from.counted()
	before, err := from.client().Status(t.Context())
	require.NoError(t, err)

	require.NoError(t, from.migrates(t.Context(), to.receives()))
	outcome, err := from.wait()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseMoved, outcome.Cause)
	require.Zero(t, outcome.ExitCode())
	to.log.await(t, to.ended, "the guest was received, and continues here")
	to.hears()
	to.counted()
	last, first := from.counts(), to.counts()
	require.Greater(t, first[0], last[len(last)-1])
	require.Less(t, first[0], last[len(last)-1]+100, "the guest was started anew")
	after := to.becomes("running", func(s status.Status) bool { return s.QEMU.RunState == "running" })
	require.Equal(t, before.UUID, after.UUID)
	require.NoFileExists(t, handover.Path(to.path("data")))

	from.start() // the source doesn't start it a second time
	_, err = from.wait()
	require.ErrorContains(t, err, "the guest was moved to the runner at 127.0.0.1:")

	to.ends()
	to.runs() // it is now started here; this migration can't deliver another guest
	_, err = to.client().Invitation(t.Context())
	require.ErrorContains(t, err, "doesn't wait for the guest of another runner")
	again := to.becomes("running", func(s status.Status) bool { return s.QEMU.RunState == "running" })
	require.Equal(t, before.UUID, again.UUID)
	require.Equal(t, from.read("data", "machines.txt"), to.read("data", "machines.txt"))
	require.Equal(t, from.read("data", "vmtype.txtar"), to.read("data", "vmtype.txtar"))
}

// A migration that would change the guest's hardware or disk is refused, and the guest continues at the source.
func TestAGuestStaysWhereTheTargetDiffers(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, guest.Counter(false))
	for name, c := range map[string]struct {
		section, disk, why string
	}{
		"hardware": {"maximumCpus: 5", disk, "the guest would have other hardware: without -smp cpus=1,maxcpus=4"},
		"memory":   {"maximumRam: 80 MiB", disk, "with -m 80M"},
		"TPM":      {"useTpm: true", disk, "the guest would have other hardware: with -device tpm-tis; with TPM 2.0"},
		"disk":     {"maximumCpus: 4", diskOf(t, guest.Counter(false)), "is not the disk of the arriving guest"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := newCounting(t, disk), newCounting(t, c.disk, c.section)
			from.runs()
			from.hears()
			require.ErrorContains(t, from.migrates(t.Context(), to.receives()), c.why)
			_, err := to.wait()
			require.ErrorContains(t, err, c.why)
			to.nothingLeft()
			from.counted()
			from.ends()
		})
	}
}

// A runner that waits for a guest stops on request, even before a source has connected.
func TestARunnerThatWaitsForAGuestIsStopped(t *testing.T) {
	t.Parallel()
	to := newCounting(t, diskOf(t, guest.Counter(false)))
	to.receives()
	_, err := to.stop()
	require.ErrorContains(t, err, "stopped while the VM was being started")
	to.nothingLeft()
	require.NoFileExists(t, to.path("invitation"))
}

// A guest with a lost TPM is not migrated, because the target's TPM would lack its data.
func TestAGuestStaysWithoutItsTPM(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, guest.Counter(false))
	from, to := newCounting(t, disk, "useTpm: true"), newCounting(t, disk, "useTpm: true")
	from.runs()
	from.hears()
	from.counted() // its firmware no longer uses the TPM
	r := control.MigrationRequest{Invitation: to.receives(), Bandwidth: 100 << 10}
	var once sync.Once
	err := from.client().Migrate(t.Context(), r, func(p vmstatus.Progress) {
		if p.Stage == string(migrate.Copying) {
			once.Do(func() { from.signal("swtpm", syscall.SIGKILL) })
		}
	})
	require.EqualError(t, err, "its TPM is lost")
	from.counted()
	_, err = to.wait()
	require.Error(t, err)
	require.Regexp(t, "the source keeps the guest: its TPM is lost|QEMU has ended", err.Error(), "what it learns first")
	err = from.migrates(t.Context(), r.Invitation)
	require.EqualError(t, err, "the guest cannot be moved: its TPM is lost; stop the VM and start it again")
}
