package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/migrate/link"
	"vmop/test/invariants"
	"vmop/test/ports"
	"vmop/test/tier"
	"vmop/test/wait"
)

// reclaims runs the verb for the VM of a folder.
func reclaims(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "vmrunner", append([]string{
		"reclaim", "-c", filepath.Join(dir, "config.yaml"),
	}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// released writes the record of a guest that was released to a lost target.
func released(t *testing.T, dir string, r migrate.Record) {
	t.Helper()
	_, source, err := link.NewKeys(net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Reserve(t))), time.Now())
	require.NoError(t, err)
	require.NoError(t, handover.Note{Record: r, Keys: source}.Write(filepath.Join(dir, "data")))
}

// A guest with a permanently lost target stays paused until a user confirms the loss. The VM can then be started again.
func TestAGuestWhoseTargetIsGoneIsReclaimed(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", counterSection(t)...)
	out, code := reclaims(t, dir, "--runs-nowhere-else")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "test has not released its guest, and does not expect one: there is nothing to reclaim")
	orphan(t, dir)
	released(t, dir, migrate.Released)
	p := start(t, dir, nil)
	p.await("configuration read")
	wait.Until(t, func() bool {
		s := known(t, dir)
		return s.Migration != nil && s.Migration.Stage == string(migrate.Asking)
	})
	out, code = reclaims(t, dir)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "If you know that it runs nowhere else, and never will: --runs-nowhere-else")
	out, code = reclaims(t, dir, "--runs-nowhere-else")
	require.Zero(t, code, out)
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.out.String(), "the guest was released to a target that is gone for good")
	require.NoFileExists(t, handover.Path(filepath.Join(dir, "data")))
	runsAnew(t, dir)
}

// runsAnew starts a VM and ends it.
func runsAnew(t *testing.T, dir string) {
	t.Helper()
	p := start(t, dir, nil)
	p.await("booting")
	client := dial(t, dir)
	require.EqualError(t, client.Act(t.Context(), control.Reclaim), handover.ErrNotReleased.Error())
	p.stops(dir)
}

// The same works when both sides have ended.
func TestAVMWhoseGuestIsLostIsReclaimed(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, r := range []migrate.Record{migrate.Released, migrate.Moved, migrate.Expecting, migrate.Given} {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			dir := folder(t, "bare", "powerdownTimeout: 0")
			orphan(t, dir)
			released(t, dir, r)
			out, code := reclaims(t, dir, "--runs-nowhere-else")
			require.Equal(t, 1, code, out)
			require.Contains(t, out, "QEMU is process")
			end(t, syscall.SIGKILL, invariants.OneQEMU(t, dir))
			refused := start(t, dir, nil)
			require.Equal(t, 1, refused.exit())
			require.Contains(t, refused.out.String(), "vmrunner reclaim")
			out, code = reclaims(t, dir, "--runs-nowhere-else")
			require.Zero(t, code, out)
			runsAnew(t, dir)
		})
	}
}
