// Package lock keeps a VM from being run twice. A lock is a file in the data directory
// (flock(2)), and two names in the kernel, one from the directory's identity, one from its
// path: the file holds wherever the directory is mounted on this host, the first name also
// when the file has been removed, the second when the directory has. There are two locks:
// one is the runner's, the other is inherited by all processes of the machine, which may
// outlive their runner.
//
// See docs/decisions/0014-inherited-lock.md, docs/decisions/0053-lock-name.md and
// docs/decisions/0174-a-lock-for-a-path.md.
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

	"vmop/regular"
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

// A Lock is one of the two of a data directory.
type Lock struct {
	path  string
	file  *os.File
	names []*os.File // that were taken
}

// A LostError says that a VM is running whose data directory was removed or renamed.
type LostError struct {
	// DataDir is where the directory was.
	DataDir string
	// PID is the process that has the VM, 0 if it isn't known.
	PID int
}

// Error implements error.
func (e *LostError) Error() string {
	who := "a process that can't be seen from here"
	if e.PID > 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("%v: %s still runs it, but its data directory %s was removed or renamed; put the directory "+
		"back, or save the guest's data and end the VM (vmrunner stop NAME --force)", ErrHeld, who, e.DataDir)
}

// Is makes it an ErrHeld.
func (e *LostError) Is(target error) bool { return target == ErrHeld }

// Runner makes this process the runner of the VM whose data directory is given;
// it is made if need be. The file keeps the runner's process number.
func Runner(dataDir string) (*Lock, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	l, err := open(filepath.Join(dataDir, RunnerFile))
	if err != nil {
		return nil, err
	}
	if err := l.await(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	// Always of one length: to truncate, and allocate anew, takes 0.2 ms. Where it
	// can't be written the lock holds all the same.
	_, _ = l.file.WriteAt(fmt.Appendf(nil, "%10d\n", os.Getpid()), 0)
	return l, nil
}

// await takes the runner's lock.
func (l *Lock) await() error {
	for begin := time.Now(); ; time.Sleep(Tick) {
		held, err := l.Try()
		var lost *LostError
		if held || err != nil && !errors.As(err, &lost) {
			return err
		}
		pid := ""
		if lost != nil {
			pid = strconv.Itoa(lost.PID)
		} else {
			pid = l.holder()
			err = fmt.Errorf("%w: %s is locked by runner process %s", ErrHeld, l.path, pid)
		}
		if waited := time.Since(begin); waited > lateLockTime || waited > dyingTime && alive(pid) {
			return err
		}
	}
}

// holder returns the number of the process that holds the runner's lock, as far as it is
// known: for the message, and to see whether it lives.
func (l *Lock) holder() string {
	text := make([]byte, 16)
	n, _ := l.file.ReadAt(text, 0) // a new file has none
	if pid := strings.TrimSpace(string(text[:n])); pid != "" {
		return pid
	}
	for _, name := range l.Names() {
		if owner, err := ownerOf(name); err == nil && owner.Pid > 0 {
			return strconv.Itoa(int(owner.Pid))
		}
	}
	return ""
}

// Machine opens the lock of the machine whose data directory is given. It is not taken
// yet.
func Machine(dataDir string) (*Lock, error) { return open(filepath.Join(dataDir, MachineFile)) }

func open(path string) (*Lock, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &Lock{path: path, file: f}, nil
}

// openFile opens a file to be locked, which is made if need be. A file system that
// the kernel makes read-only, because it has faults, must not keep the next runner
// from a VM that runs.
func openFile(path string) (*os.File, error) {
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

// Path returns the path of the file.
func (l *Lock) Path() string { return l.path }

// Files returns what a process inherits that is to hold the lock, once it is taken.
func (l *Lock) Files() []*os.File {
	return append([]*os.File{l.file}, l.names...)
}

// Try takes the lock, and reports whether it could. The error is a *LostError if the directory
// isn't the one that a running VM had at this path.
func (l *Lock) Try() (bool, error) {
	for {
		if free, err := flock(l.file); !free || err != nil {
			return false, err
		}
		current, err := l.isCurrent()
		if err != nil {
			return false, err
		}
		if current {
			return l.takeNames()
		}
		// Someone has removed it, or put another in its place: that is the one that
		// others will lock.
		f, err := openFile(l.path)
		if err != nil {
			return false, err
		}
		if err := release(l.file); err != nil {
			return false, errors.Join(err, f.Close())
		}
		l.file = f
	}
}

// isCurrent reports whether the path leads to the file that is locked.
func (l *Lock) isCurrent() (bool, error) {
	locked, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(locked, there), err
}

// Runs reports whether the VM of a data directory has processes, without changing
// anything there.
func Runs(dataDir string) (bool, error) {
	path := filepath.Join(dataDir, MachineFile)
	l := Lock{path: path}
	var err error
	if l.file, err = regular.Open(path); err != nil { // its data has gone
		return Lost(dataDir), nil
	}
	free, err := flock(l.file)
	if free && err == nil {
		free, err = l.takeNames()
	}
	if errors.Is(err, ErrHeld) {
		free, err = false, nil
	}
	return !free && err == nil, errors.Join(err, l.Release())
}

// flock locks a file, and reports whether it could.
func flock(f *os.File) (bool, error) {
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
func (l *Lock) Release() error {
	return errors.Join(l.releaseNames(), release(l.file))
}

func (l *Lock) releaseNames() error {
	var errs []error
	for _, name := range l.names {
		errs = append(errs, release(name))
	}
	l.names = nil
	return errors.Join(errs...)
}

func release(f *os.File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.Close()
}
