package images

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockTick is how often a lock is tried that another process holds.
const lockTick = 100 * time.Millisecond

// errInUse says that another process holds a lock.
var errInUse = errors.New("another process is using it")

// A fileLock is a lock of a file (flock(2)) that ends with its process.
type fileLock struct{ file *os.File }

// lock takes the lock of a file, which is made if need be: alone, or with others. wait is called
// when another process holds it; the error it returns gives up.
func lock(ctx context.Context, path string, alone bool, wait func() error) (*fileLock, error) {
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
			if err := errors.Join(file.Close(), wait(), rest(ctx)); err != nil {
				return nil, err
			}
		default: // the last holder has removed it
			_ = file.Close()
		}
	}
}

func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lockTick):
		return nil
	}
}

// isAt reports whether an open file is the one at a path.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

func (l *fileLock) release() error { return l.file.Close() }
