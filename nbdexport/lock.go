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
	// keep qemu-nbd out.
	lockedByte = 1 << 60
	// lockTick is between two attempts.
	lockTick = 100 * time.Millisecond
)

// lock waits until no other export writes to the disk; of read-only exports, until none writes.
// The lock belongs to the open file: who inherits it has the lock, too.
func (e Export) lock(ctx context.Context, disk *os.File, logger *slog.Logger) error {
	how := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	if e.ReadOnly {
		how.Type = unix.F_RDLCK
	}
	waits := false
	for {
		// The type is overwritten by F_OFD_GETLK only.
		err := unix.FcntlFlock(disk.Fd(), unix.F_OFD_SETLK, &how)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			return fmt.Errorf("lock %s: %w", e.Disk, os.NewSyscallError("fcntl", err))
		case !waits:
			waits = true
			logger.Warn("waiting for the end of another export of the disk", "disk", e.Disk)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lockTick):
		}
	}
}
