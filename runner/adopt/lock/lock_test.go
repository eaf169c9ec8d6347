package lock

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

	require.NoError(t, held.Release())
	again, err := Runner(dir)
	require.NoError(t, err, "a file that was left locks nothing")
	require.NoError(t, again.Release())
}

// inherits starts a process that holds a lock until its end of the pipe is closed.
func inherits(t *testing.T, held *Lock) (*exec.Cmd, io.Closer) {
	t.Helper()
	heir := exec.CommandContext(t.Context(), "cat")
	end, err := heir.StdinPipe()
	require.NoError(t, err)
	heir.ExtraFiles = held.Files()
	require.NoError(t, heir.Start())
	return heir, end
}

// locking takes a VM's lock briefly and reports the result.
func locking(dir string) <-chan error {
	waiting := make(chan error)
	go func() {
		again, err := Runner(dir)
		if err == nil {
			err = again.Release()
		}
		waiting <- err
	}()
	return waiting
}

// Taking a lock waits for a process that a killed runner was starting, which holds the lock for a moment.
func TestLockOfADeadRunnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := Runner(dir)
	require.NoError(t, err)
	heir, end := inherits(t, held)
	dead := exec.CommandContext(t.Context(), "true")
	require.NoError(t, dead.Run())
	_, err = held.file.WriteAt(fmt.Appendf(nil, "%10d\n", dead.Process.Pid), 0)
	require.NoError(t, err)
	require.NoError(t, held.Release())

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

// Taking a lock waits for a killed runner, which holds its lock for a moment. On a slow machine this may need a second
// attempt.
func TestLockOfADyingRunnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	try := func() error {
		dir := t.TempDir()
		held, err := Runner(dir)
		require.NoError(t, err)
		dying, end := inherits(t, held)
		_, err = held.file.WriteAt(fmt.Appendf(nil, "%10d\n", dying.Process.Pid), 0)
		require.NoError(t, err)
		require.NoError(t, held.Release())
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

// A lock with a living holder is reported after half a second. With a dead holder the wait is ten times as long,
// because a process that the holder was starting has inherited the lock.
func TestHowLongALockIsWaitedFor(t *testing.T) {
	t.Parallel()
	dead := exec.CommandContext(t.Context(), "true")
	require.NoError(t, dead.Run())
	for name, tt := range map[string]struct {
		holder      int
		most, least time.Duration
	}{
		"living": {os.Getpid(), 510 * time.Millisecond, 500 * time.Millisecond},
		"dead":   {dead.Process.Pid, 5010 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			held, err := Runner(dir)
			require.NoError(t, err)
			_, err = held.file.WriteAt(fmt.Appendf(nil, "%10d\n", tt.holder), 0)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := Runner(dir)
				require.ErrorIs(t, err, ErrHeld)
				require.ErrorContains(t, err, fmt.Sprintf("runner process %d", tt.holder))
				require.GreaterOrEqual(t, time.Since(begin), tt.least)
				require.LessOrEqual(t, time.Since(begin), tt.most)
			})
			require.NoError(t, held.Release())
		})
	}
}

func TestLockNeedsADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Runner(file)
	require.ErrorContains(t, err, "make data directory: mkdir "+file)
	require.NotErrorIs(t, err, ErrHeld)
}

// Removing or replacing the lock file does not release the lock.
func TestRemovedLockIsHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, MachineFile)
	held, err := Machine(dir)
	require.NoError(t, err)
	free, err := held.Try()
	require.NoError(t, err)
	require.True(t, free)
	heir, end := inherits(t, held)
	require.NoError(t, held.Release())

	require.NoError(t, os.Remove(path))
	other, err := Machine(dir)
	require.NoError(t, err)
	free, err = other.Try()
	require.NoError(t, err)
	require.False(t, free, "a process has inherited the name")
	runs, err := Runs(dir)
	require.NoError(t, err)
	require.True(t, runs)

	require.NoError(t, end.Close())
	require.NoError(t, heir.Wait())
	free, err = other.Try()
	require.NoError(t, err)
	require.True(t, free)
	require.NoError(t, other.Release())
	runs, err = Runs(dir)
	require.NoError(t, err)
	require.False(t, runs)
}

// The locked file is the file that others open, even if it was replaced before.
func TestLockOfAFileThatWasExchanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, MachineFile)
	late, err := Machine(dir)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	free, err := late.Try()
	require.NoError(t, err)
	require.True(t, free)
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	free, err = flockFile(f)
	require.NoError(t, err)
	require.False(t, free)
	require.NoError(t, late.Release())
}

// A VM starts even if another user has taken its lock's name. A socket that doesn't listen is not a lock.
func TestNamesOfOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what string
		take func(*testing.T, string) *os.File
		free bool
	}{
		{"another user's", takenByAnotherUser, true},
		{"one that does not listen", boundOnly, true},
		{"this user's", func(t *testing.T, name string) *os.File {
			f, err := listenByName(name)
			require.NoError(t, err)
			return f
		}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			l, err := Machine(t.TempDir())
			require.NoError(t, err)
			taken := tt.take(t, l.identityName())
			free, err := l.Try()
			require.NoError(t, err)
			require.Equal(t, tt.free, free)
			require.Len(t, l.names, map[bool]int{true: 1}[tt.free], "the name is another's")
			require.NoError(t, taken.Close())
			require.NoError(t, l.Release())
		})
	}
}

// takenByAnotherUser creates a listening socket as a user other than root.
func takenByAnotherUser(t *testing.T, name string) *os.File {
	t.Helper()
	var f *os.File
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		const nobody, same = 65534, ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); e != 0 {
			err = e
			return
		}
		f, err = listenByName(name)
	}()
	<-done
	require.NoError(t, err, "this test needs root")
	return f
}

func boundOnly(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	return os.NewFile(uintptr(fd), name)
}

// While a VM's runner or one of its processes lives, a second VM can't use its path, even if the data directory was
// removed or renamed. Other directories are free.
func TestAPathIsLockedThoughItsDirectoryIsGone(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(*testing.T, string){
		"removed": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
		"renamed": func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".old")) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			runner, err := Runner(dir)
			require.NoError(t, err)
			machine, err := Machine(dir)
			require.NoError(t, err)
			free, err := machine.Try()
			require.NoError(t, err)
			require.True(t, free)
			require.False(t, Lost(dir))
			lose(t, dir)
			require.True(t, Lost(dir))

			_, err = Runner(dir)
			var lost *LostError
			require.ErrorAs(t, err, &lost)
			require.ErrorIs(t, err, ErrHeld)
			require.Equal(t, os.Getpid(), lost.PID)
			require.NoError(t, runner.Release())
			heir, end := inherits(t, machine)
			require.NoError(t, machine.Release())
			again, err := Runner(dir)
			require.NoError(t, err)
			other, err := Machine(dir)
			require.NoError(t, err)
			_, err = other.Try()
			require.ErrorAs(t, err, &lost)
			require.True(t, Lost(dir))
			runs, err := Runs(dir)
			require.NoError(t, err)
			require.True(t, runs)

			require.NoError(t, end.Close())
			require.NoError(t, heir.Wait())
			free, err = other.Try()
			require.NoError(t, err)
			require.True(t, free)
			require.NoError(t, other.Release())
			require.NoError(t, again.Release())
			require.False(t, Lost(dir))
		})
	}
}

// Another user who takes the name of a path does not prevent the owner's VM from starting.
func TestAPathTakenByAnotherUserIsFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Machine(dir)
	require.NoError(t, err)
	taken := takenByAnotherUser(t, l.pathName())
	free, err := l.Try()
	require.NoError(t, err)
	require.True(t, free)
	require.False(t, Lost(dir))
	names, foreign := Owned(dir, MachineFile)
	require.True(t, foreign)
	require.Equal(t, []string{l.identityName()}, names)
	require.NoError(t, taken.Close())
	require.NoError(t, l.Release())
}
