// Package lock prevents a VM from being run twice. A lock consists of a file in the data directory (flock(2)) and
// two names in the kernel:
//
//   - The file works wherever the directory is mounted on this host.
//   - The first name is computed from the directory's identity, and works even if the file was removed.
//   - The second name is computed from the directory's path, and works even if the directory was removed.
//
// There are two locks: the runner's, and the machine's. All processes of the machine inherit the machine's lock,
// and may outlive their runner.
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

	"vmop/internal/readfile"
)

// Files in the data directory that are locked (flock(2)).
const (
	// RunnerFile is locked by the runner of the VM.
	RunnerFile = "runner.lock"
	// MachineFile is locked by every process of the VM, by inheritance: as long as one of them lives, no other
	// machine is started.
	MachineFile = "lock"
)

// ErrHeld reports that the VM is already running.
var ErrHeld = errors.New("the VM runs already")

// How long to wait for locks.
const (
	// lateLockTime: a process that a killed runner was starting may hold its lock for a moment.
	lateLockTime = 5 * time.Second
	// dyingTime: the runner itself may also hold it until it has ended.
	dyingTime = 500 * time.Millisecond
	// Tick is the time between two attempts to acquire a lock.
	Tick = 2 * time.Millisecond
)

// A Lock is one of the two locks of a data directory.
type Lock struct {
	path  string
	file  *os.File
	names []*os.File // the acquired names
}

// A LostError reports that a VM is running after its data directory was removed or renamed.
type LostError struct {
	// DataDir is the former path of the directory.
	DataDir string
	// PID is a process of the VM, 0 if it isn't known.
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

// Is makes errors.Is match ErrHeld.
func (e *LostError) Is(target error) bool { return target == ErrHeld }

// Runner makes this process the runner of the VM with this data directory. It creates the directory if necessary.
// The file contains the runner's process number.
func Runner(dataDir string) (*Lock, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	l, err := openLock(filepath.Join(dataDir, RunnerFile))
	if err != nil {
		return nil, err
	}
	if err := l.awaitRunnerLock(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	// Always of the same length, because truncating and allocating takes 0.2 ms. Without write permission the
	// lock still holds.
	_, _ = l.file.WriteAt(fmt.Appendf(nil, "%10d\n", os.Getpid()), 0)
	return l, nil
}

// awaitRunnerLock acquires the runner's lock.
func (l *Lock) awaitRunnerLock() error {
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
			pid = l.holderPid()
			err = fmt.Errorf("%w: %s is locked by runner process %s", ErrHeld, l.path, pid)
		}
		if waited := time.Since(begin); waited > lateLockTime || waited > dyingTime && isAlive(pid) {
			return err
		}
	}
}

// holderPid returns the number of the process that holds the runner's lock, if it is known. It is used for the
// message, and to check whether the process lives.
func (l *Lock) holderPid() string {
	text := make([]byte, 16)
	n, _ := l.file.ReadAt(text, 0) // a new file is empty
	if pid := strings.TrimSpace(string(text[:n])); pid != "" {
		return pid
	}
	for _, name := range l.Names() {
		if owner, err := ownerOfName(name); err == nil && owner.Pid > 0 {
			return strconv.Itoa(int(owner.Pid))
		}
	}
	return ""
}

// Machine opens the lock of the machine with this data directory. It doesn't acquire it.
func Machine(dataDir string) (*Lock, error) { return openLock(filepath.Join(dataDir, MachineFile)) }

func openLock(path string) (*Lock, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &Lock{path: path, file: f}, nil
}

// openFile opens a file to be locked, and creates it if necessary. If the kernel has made the file system
// read-only after an error, the next runner must still be able to adopt a running VM.
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

// Files returns the files that a process inherits to hold the acquired lock.
func (l *Lock) Files() []*os.File {
	return append([]*os.File{l.file}, l.names...)
}

// Try acquires the lock, and reports whether it succeeded. The error is a *LostError if the directory differs
// from the directory that a running VM had at this path.
func (l *Lock) Try() (bool, error) {
	for {
		if free, err := flockFile(l.file); !free || err != nil {
			return false, err
		}
		current, err := l.isCurrent()
		if err != nil {
			return false, err
		}
		if current {
			return l.takeNames()
		}
		// The file was removed or replaced, so others will lock the file that is now at the path.
		f, err := openFile(l.path)
		if err != nil {
			return false, err
		}
		if err := releaseFile(l.file); err != nil {
			return false, errors.Join(err, f.Close())
		}
		l.file = f
	}
}

// isCurrent reports whether the path leads to the locked file.
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

// Runs reports whether the VM of a data directory has processes. It doesn't change the directory.
func Runs(dataDir string) (bool, error) {
	path := filepath.Join(dataDir, MachineFile)
	l := Lock{path: path}
	var err error
	if l.file, err = readfile.Open(path); err != nil { // its data is gone
		return Lost(dataDir), nil
	}
	free, err := flockFile(l.file)
	if free && err == nil {
		free, err = l.takeNames()
	}
	if errors.Is(err, ErrHeld) {
		free, err = false, nil
	}
	return !free && err == nil, errors.Join(err, l.Release())
}

// flockFile locks a file, and reports whether it succeeded.
func flockFile(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// isAlive reports whether a process with this number exists.
func isAlive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 0 && !errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// Release releases the runner's share of a lock. No process may be starting at the same time, because it would
// hold the lock for a moment longer.
func (l *Lock) Release() error {
	return errors.Join(l.releaseNames(), releaseFile(l.file))
}

func (l *Lock) releaseNames() error {
	var errs []error
	for _, name := range l.names {
		errs = append(errs, releaseFile(name))
	}
	l.names = nil
	return errors.Join(errs...)
}

func releaseFile(f *os.File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.Close()
}
