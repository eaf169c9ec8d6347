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

	"vmop/internal/childprocess"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// startInit starts vmrunner as the first process of a VM, with run's flags.
func startInit(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	args = append([]string{
		"init", "-c", filepath.Join(dir, "config.yaml"), "--vmtypes",
		"../../runner/testdata/vmtypes", "--log-format", "text",
	}, args...)
	p := &program{
		t: t, cmd: exec.CommandContext(t.Context(), "vmrunner", args...), out: newTranscript(),
		ended: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.launch()
	return p
}

// runnerOf returns the process ID of the VM's runner.
func runnerOf(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "runner.lock"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return pid
}

func TestInitRunsTheVM(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", obedient(t, false)...)
	p := startInit(t, dir, "--console")
	p.await(`booting`)
	p.await(guest.ObedientSays)
	require.NotEqual(t, p.cmd.Process.Pid, runnerOf(t, dir))
	p.signal(syscall.SIGTERM)
	p.await(`terminating`)
	require.Zero(t, p.exit())
	require.NotContains(t, p.out.String(), "left")
	require.NoDirExists(t, filepath.Join(dir, "run"))
}

func TestInitEndsAsTheRunnerDoes(t *testing.T) {
	t.Parallel()
	p := startInit(t, folder(t, "standard", "maximumCpus: many"))
	require.Equal(t, 2, p.exit())
	require.Equal(t, 1, strings.Count(p.out.String(), "vmrunner: "), "the runner tells, init does not repeat it:\n%s",
		p.out)
	p = startInit(t, folder(t, "standard"), "--no-such-flag")
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.out.String(), "vmrunner: unknown flag: --no-such-flag")
}

// A guest that shuts itself down while no runner is running is not started again: the next runner learns from init how
// QEMU ended. TERM makes QEMU exit with the same code as a guest's power-off, which the test could not time.
func TestInitKnowsHowQEMUEnded(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", obedient(t, false)...)
	p := startInit(t, dir, "--console")
	p.await(guest.ObedientSays)
	runner := runnerOf(t, dir)
	require.NoError(t, syscall.Kill(runner, syscall.SIGSTOP))
	qemu := func() (pids []int) {
		for name, found := range invariants.Processes(t, dir) {
			if strings.HasPrefix(name, "qemu") {
				pids = append(pids, found...)
			}
		}
		return pids
	}
	require.Len(t, qemu(), 1)
	id, err := childprocess.Identify(qemu()[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(id.PID, syscall.SIGTERM))
	wait.Until(t, func() bool { return !id.Runs() })
	require.NoError(t, syscall.Kill(runner, syscall.SIGKILL))
	p.await(`QEMU has ended normally while no runner was running; the VM is not started again.*outcome="guest ` +
		`shutdown"`)
	require.Zero(t, p.exit())
	invariants.NothingLeft(t, dir)
}

// After a runner is killed, init starts another.
func TestInitStartsAnotherRunner(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	p := startInit(t, dir)
	p.await(`booting`)
	require.NoError(t, syscall.Kill(runnerOf(t, dir), syscall.SIGKILL))
	p.await(`runner died.*SIGKILL`)
	p.await(`runner started again`)
	p.await(`INF adopted`)
	p.stops(dir)
}
