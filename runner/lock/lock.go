// Package lock keeps a VM from being run twice, by two locked files (flock(2)) in
// its data directory: one is the runner's, the other is inherited by all processes
// of the machine, which may outlive their runner.
package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files in the data directory that are locked (flock(2)).
const (
	// RunnerFile is held by the runner of the VM.
	RunnerFile = "runner.lock"
	// MachineFile is held by every process of the VM, which inherit it: as long
	// as one of them lives, no other machine is started.
	MachineFile = "lock"
)

// ErrHeld says that the VM runs already.
var ErrHeld = errors.New("the VM runs already")

// Times that locks are waited for.
const (
	// lateLockTime: a process that a killed runner was starting may have its
	// lock for a moment.
	lateLockTime = 5 * time.Second
	// dyingTime: so may the runner itself, which is there until it has ended.
	dyingTime = 500 * time.Millisecond
	// Tick is between two attempts to take a lock.
	Tick = 2 * time.Millisecond
)

// Runner makes this process the runner of the VM whose data directory is given;
// it is made if need be. The file keeps the runner's process number.
//
// See docs/decisions/0014-inherited-lock.md.
func Runner(dataDir string) (*os.File, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	f, err := Open(filepath.Join(dataDir, RunnerFile))
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	for {
		held, err := Try(f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if held {
			break
		}
		holder := make([]byte, 16)
		n, _ := f.ReadAt(holder, 0) // for the message, and to see whether it lives
		pid := strings.TrimSpace(string(holder[:n]))
		if waited := time.Since(begin); waited > lateLockTime || waited > dyingTime && alive(pid) {
			return nil, errors.Join(fmt.Errorf("%w: %s is locked by runner process %s", ErrHeld, f.Name(), pid),
				f.Close())
		}
		time.Sleep(Tick)
	}
	// Always of one length: to truncate, and allocate anew, takes 0.2 ms. Where it
	// can't be written the lock holds all the same.
	_, _ = f.WriteAt(fmt.Appendf(nil, "%10d\n", os.Getpid()), 0)
	return f, nil
}

// Open opens a file to be locked, which is made if need be. A file system that
// the kernel makes read-only, because it has faults, must not keep the next runner
// from a VM that runs.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, unix.EROFS) {
		if readable, e := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0); e == nil {
			return readable, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open lock of the VM: %w", err)
	}
	return f, nil
}

// Try takes a lock, and reports whether it could.
func Try(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// alive reports whether there is a process of that number.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && !errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// Release gives the runner's share of a lock up. A process that is being
// started at this moment would have it for a moment longer, so there must be
// none.
func Release(f *os.File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.Close()
}
