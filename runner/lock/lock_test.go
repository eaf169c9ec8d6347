package lock

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLockIsHeldOnceAndNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	held, err := Runner(dir)
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	_, err = Runner(dir)
	require.ErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, filepath.Join(dir, RunnerFile))
	require.ErrorContains(t, err, fmt.Sprintf("runner process %d", os.Getpid()))

	require.NoError(t, held.Close())
	again, err := Runner(dir)
	require.NoError(t, err, "a file that was left locks nothing")
	require.NoError(t, again.Close())
}

// inherits starts a process that has a lock, until its end of the pipe is closed.
func inherits(t *testing.T, held *os.File) (*exec.Cmd, io.Closer) {
	t.Helper()
	heir := exec.CommandContext(t.Context(), "cat")
	end, err := heir.StdinPipe()
	require.NoError(t, err)
	heir.ExtraFiles = []*os.File{held}
	require.NoError(t, heir.Start())
	return heir, end
}

// locking takes the lock of a VM for a moment, and tells how that went.
func locking(dir string) <-chan error {
	waiting := make(chan error)
	go func() {
		again, err := Runner(dir)
		if err == nil {
			err = again.Close()
		}
		waiting <- err
	}()
	return waiting
}

// A process that a killed runner was just starting has its lock for a moment.
func TestLockOfADeadRunnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := Runner(dir)
	require.NoError(t, err)
	heir, end := inherits(t, held)
	dead := exec.CommandContext(t.Context(), "true")
	require.NoError(t, dead.Run())
	_, err = held.WriteAt(fmt.Appendf(nil, "%10d\n", dead.Process.Pid), 0)
	require.NoError(t, err)
	require.NoError(t, held.Close())

	waiting := locking(dir)
	select {
	case err := <-waiting:
		require.Fail(t, "the lock is held", "%v", err)
	case <-time.After(10 * Tick):
	}
	require.NoError(t, end.Close())
	require.NoError(t, heir.Wait())
	require.NoError(t, <-waiting)
}

// A runner that was killed has its lock for a moment, too. How long is up to the
// machine, so a second attempt may be needed here.
func TestLockOfADyingRunnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	try := func() error {
		dir := t.TempDir()
		held, err := Runner(dir)
		require.NoError(t, err)
		dying, end := inherits(t, held)
		_, err = held.WriteAt(fmt.Appendf(nil, "%10d\n", dying.Process.Pid), 0)
		require.NoError(t, err)
		require.NoError(t, held.Close())
		waiting := locking(dir)
		time.Sleep(10 * Tick)
		require.NoError(t, end.Close())
		require.NoError(t, dying.Wait())
		return <-waiting
	}
	for range 20 {
		if try() == nil {
			return
		}
	}
	require.Fail(t, "the lock is never waited for")
}

func TestLockNeedsADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Runner(file)
	require.ErrorContains(t, err, "make data directory: mkdir "+file)
	require.NotErrorIs(t, err, ErrHeld)
}
