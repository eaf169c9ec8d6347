package images

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockTick is the time between two attempts to acquire a lock that another process holds.
const lockTick = 100 * time.Millisecond

// errInUse reports that another process holds a lock.
var errInUse = errors.New("another process is using it")

// A fileLock is a lock of a file (flock(2)) that ends with its process.
type fileLock struct{ file *os.File }

// lockFile acquires the lock of a file: exclusively if alone is true, otherwise shared. It creates a missing file. It
// calls wait when another process holds the lock; an error from wait ends the attempt.
func lockFile(ctx context.Context, path string, alone bool, wait func() error) (*fileLock, error) {
	how := unix.LOCK_SH | unix.LOCK_NB
	if alone {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(file.Fd()), how); {
		case err == nil && isAt(file, path):
			return &fileLock{file}, nil
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(err, file.Close())
		case err != nil:
			if err := errors.Join(file.Close(), wait(), waitForRetry(ctx)); err != nil {
				return nil, err
			}
		default: // the last holder has removed it
			_ = file.Close()
		}
	}
}

func waitForRetry(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lockTick):
		return nil
	}
}

// isAt reports whether path leads to the open file.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

func (l *fileLock) releaseLock() error { return l.file.Close() }
