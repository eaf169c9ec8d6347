package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile in the data directory is locked while a process of the VM lives.
const lockFile = "lock"

// ErrLocked says that the VM runs already.
var ErrLocked = errors.New("the VM runs already")

// lockVM takes the lock of the data directory, which it makes if need be. The lock belongs to the open
// file: QEMU inherits it, and it lasts until the last process that has it ends.
func lockVM(dataDir string) (*os.File, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(dataDir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the VM: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(path) // for the message only
		return nil, errors.Join(fmt.Errorf("%w: %s is locked, started by runner process %s", ErrLocked, path, strings.TrimSpace(string(holder))), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// Always of one length: to truncate, and allocate anew, takes 0.2 ms.
	if _, err := f.WriteAt(fmt.Appendf(nil, "%10d\n", os.Getpid()), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write lock of the VM: %w", err), f.Close())
	}
	return f, nil
}

// unlock gives the runner's share of the lock up. A process that is being
// started at this moment would have it for a moment longer, so there must be
// none.
func unlock(f *os.File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f.Close()
}
