package nbd

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
	// lockedByte is the byte of a disk that is locked. It need not exist, and is far from the bytes that QEMU locks
	// (100 to 300). A lock on the whole file (flock(2)) covers all bytes on NFS and would lock out the server.
	lockedByte = 1 << 60
	// lockTick is the time between two attempts.
	lockTick = 100 * time.Millisecond
)

// acquireDisk opens the disk and waits for its lock. A writable export waits for all other exports, a read-only export
// only for a writable export. The lock belongs to the open file, so a process that inherits the file also holds the
// lock. acquireDisk returns a nil file if the context has ended.
func (e Export) acquireDisk(ctx context.Context, logger *slog.Logger) (*os.File, error) {
	for waits := false; ; waits = true {
		disk, err := e.openDisk()
		if err == nil {
			if err = e.lockDisk(disk); err == nil {
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

// lockDisk locks the disk. It doesn't wait: if another process holds the lock, it returns EAGAIN.
func (e Export) lockDisk(disk *os.File) error {
	how := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	if e.ReadOnly {
		how.Type = unix.F_RDLCK
	}
	if err := unix.FcntlFlock(disk.Fd(), unix.F_OFD_SETLK, &how); err != nil {
		return fmt.Errorf("lock %s: %w", e.Disk, os.NewSyscallError("fcntl", err))
	}
	return nil
}
