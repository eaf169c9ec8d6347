package nbdexport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockedByte is what is locked of a disk. It is far from the bytes that QEMU locks (100 to 300),
	// and need not exist. A lock of the whole file (flock(2)) is one of all bytes on NFS, and would
	// keep the server out.
	lockedByte = 1 << 60
	// lockTick is between two attempts.
	lockTick = 100 * time.Millisecond
)

// acquire opens the disk, and waits until no other export writes to it; a read-only export waits
// until none writes. The lock belongs to the open file: a process that inherits it has the lock,
// too. There is no file if the context has ended.
func (e Export) acquire(ctx context.Context, logger *slog.Logger) (*os.File, error) {
	for waits := false; ; waits = true {
		disk, err := e.open()
		if err == nil {
			if err = e.lock(disk); err == nil {
				return disk, nil
			}
			err = errors.Join(err, disk.Close())
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EAGAIN) {
			return nil, err
		}
		if !waits {
			logger.Warn("waiting for the end of another export of the disk", "disk", e.Disk, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(lockTick):
		}
	}
}

// lock locks the disk, or returns at once that another process has the lock (EAGAIN).
func (e Export) lock(disk *os.File) error {
	how := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	if e.ReadOnly {
		how.Type = unix.F_RDLCK
	}
	if err := unix.FcntlFlock(disk.Fd(), unix.F_OFD_SETLK, &how); err != nil {
		return fmt.Errorf("lock %s: %w", e.Disk, os.NewSyscallError("fcntl", err))
	}
	return nil
}
