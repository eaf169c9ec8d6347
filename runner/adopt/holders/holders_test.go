package holders_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/adopt/holders"
	"vmop/runner/adopt/lock"
)

// holder is a process that holds a lock. On SIGTERM it prints "asked" and ends.
type holder struct {
	*exec.Cmd
	out io.Reader
}

// startHolder starts a process that holds a data directory's lock, and releases the lock in this process. The words
// appear in its command line.
func startHolder(t *testing.T, take func(string) (*lock.Lock, error), dataDir string, words ...string) holder {
	t.Helper()
	held, err := take(dataDir)
	require.NoError(t, err)
	words = append([]string{"-c", "trap 'echo asked; exit' TERM; echo; while :; do sleep 60 & wait; done"}, words...)
	cmd := exec.CommandContext(t.Context(), "sh", words...)
	cmd.ExtraFiles = held.Files()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
	})
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	for _, f := range held.Files() {
		require.NoError(t, f.Close())
	}
	return holder{cmd, out}
}

// requireAsked requires that the process has received SIGTERM.
func (h holder) requireAsked(t *testing.T) {
	t.Helper()
	said := make([]byte, len("asked\n"))
	_, err := io.ReadFull(h.out, said)
	require.NoError(t, err)
	require.Equal(t, "asked\n", string(said))
}

// machine takes a machine's lock, which its processes inherit.
func machine(dataDir string) (*lock.Lock, error) {
	held, err := lock.Machine(dataDir)
	if err == nil {
		_, err = held.Try()
	}
	return held, err
}

// Holders of a lock are found, even after its directory was renamed, and this process is never among them. The test is
// not parallel because a process started by another test holds all of this process's files until its exec.
func TestOfFindsHolders(t *testing.T) {
	dataDir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dataDir, 0o700))
	found, err := holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Empty(t, found, "no process has it")
	own, err := lock.Runner(dataDir)
	require.NoError(t, err)
	found, err = holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Empty(t, found, "it is this process's")
	require.NoError(t, own.Release())

	child := startHolder(t, lock.Runner, dataDir)
	found, err = holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), child.Process.Pid)
	require.Equal(t, child.Process.Pid, holders.Runner(dataDir).PID)
	require.NoError(t, os.Rename(dataDir, dataDir+"2"))
	found, err = holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), child.Process.Pid, "by the name of its lock")
}

func pids(list []childprocess.ID) (all []int) {
	for _, id := range list {
		all = append(all, id.PID)
	}
	return all
}

// QEMU is recognized by the option that a runner passes to it, not by the program's name.
func TestFindQEMUKnowsTheOption(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	other := startHolder(t, machine, dataDir, "qemu-system-x86_64", "-mon", "chardev=other,mode=control")
	found, err := holders.Of(dataDir, lock.MachineFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), other.Process.Pid)
	require.Zero(t, holders.FindQEMU(found))
	qemu := startHolder(t, machine, t.TempDir(), "-mon", holders.MonitorOption)
	id, err := childprocess.Identify(qemu.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, id, holders.FindQEMU(append(found, id)))
}

// Only the runner receives SIGTERM, and a VM without a runner isn't asked.
func TestAskGuestSignalsTheRunner(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	_, err := holders.AskGuest(dataDir)
	require.ErrorIs(t, err, os.ErrProcessDone)
	_, err = holders.AskGuest("")
	require.ErrorIs(t, err, os.ErrProcessDone)
	runner := startHolder(t, lock.Runner, dataDir)
	asked, err := holders.AskGuest(dataDir)
	require.NoError(t, err)
	require.Equal(t, runner.Process.Pid, asked.PID)
	runner.requireAsked(t)
}

// End ends a VM's QEMU and its runner, even if the runner is suspended.
func TestEndEndsAll(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	ended, err := holders.End(t.Context(), dataDir)
	require.NoError(t, err)
	require.False(t, ended, "there is nothing to end")
	runner, qemu := startHolder(t, lock.Runner, dataDir), startHolder(t, machine, dataDir)
	require.NoError(t, runner.Process.Signal(syscall.SIGSTOP))
	ended, err = holders.End(t.Context(), dataDir)
	require.NoError(t, err)
	require.True(t, ended)
	require.Error(t, runner.Wait())
	require.Equal(t, syscall.SIGKILL, runner.ProcessState.Sys().(syscall.WaitStatus).Signal())
	qemu.requireAsked(t) // already reaped: End has adopted it, a child of this process
}
