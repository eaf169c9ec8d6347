package holders_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/process"
	"vmop/runner/holders"
	"vmop/runner/lock"
)

// holds starts a process that has a lock of a data directory, and this one gives it up. In its command line are words.
func holds(t *testing.T, take func(string) (*lock.Lock, error), dataDir string, words ...string) *exec.Cmd {
	t.Helper()
	held, err := take(dataDir)
	require.NoError(t, err)
	words = append([]string{"-c", "echo; while :; do sleep 60; done"}, words...)
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
	return cmd
}

// machine takes the lock of a machine, which its processes inherit.
func machine(dataDir string) (*lock.Lock, error) {
	held, err := lock.Machine(dataDir)
	if err == nil {
		_, err = held.Try()
	}
	return held, err
}

// A lock is found at the processes that have it, also after its directory was renamed, and never at this one.
func TestOfFindsHolders(t *testing.T) {
	t.Parallel()
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

	child := holds(t, lock.Runner, dataDir)
	found, err = holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), child.Process.Pid)
	require.Equal(t, child.Process.Pid, holders.Runner(dataDir).PID)
	require.NoError(t, os.Rename(dataDir, dataDir+"2"))
	found, err = holders.Of(dataDir, lock.RunnerFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), child.Process.Pid, "by the name of its lock")
}

func pids(list []process.ID) (all []int) {
	for _, id := range list {
		all = append(all, id.PID)
	}
	return all
}

// QEMU is recognized by the option that a runner gives it, and not by its program's name.
func TestFindQEMUKnowsTheOption(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	other := holds(t, machine, dataDir, "qemu-system-x86_64", "-mon", "chardev=other,mode=control")
	found, err := holders.Of(dataDir, lock.MachineFile)
	require.NoError(t, err)
	require.Contains(t, pids(found), other.Process.Pid)
	require.Zero(t, holders.FindQEMU(found))
	qemu := holds(t, machine, t.TempDir(), "-mon", holders.MonitorOption)
	id, err := process.Identify(qemu.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, id, holders.FindQEMU(append(found, id)))
}

// TERM goes to the runner only, and a VM without a runner isn't asked.
func TestAskGuestSignalsTheRunner(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	_, err := holders.AskGuest(dataDir)
	require.ErrorIs(t, err, os.ErrProcessDone)
	_, err = holders.AskGuest("")
	require.ErrorIs(t, err, os.ErrProcessDone)
	runner := holds(t, lock.Runner, dataDir)
	asked, err := holders.AskGuest(dataDir)
	require.NoError(t, err)
	require.Equal(t, runner.Process.Pid, asked.PID)
	require.Error(t, runner.Wait())
	require.Equal(t, syscall.SIGTERM, runner.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// A VM is ended with its runner, even if that is suspended, and with its QEMU.
func TestEndEndsAll(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	ended, err := holders.End(t.Context(), dataDir)
	require.NoError(t, err)
	require.False(t, ended, "there is nothing to end")
	runner, qemu := holds(t, lock.Runner, dataDir), holds(t, machine, dataDir)
	require.NoError(t, runner.Process.Signal(syscall.SIGSTOP))
	signals := make(chan syscall.Signal, 2)
	for _, cmd := range []*exec.Cmd{runner, qemu} {
		go func() {
			_ = cmd.Wait()
			signals <- cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
		}()
	}
	ended, err = holders.End(t.Context(), dataDir)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, syscall.SIGKILL, <-signals)
	require.Equal(t, syscall.SIGTERM, <-signals)
}
