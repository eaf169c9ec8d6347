package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TakePlace waits for a place for a guest. Call leave to return the place; the end of the test or its process also
// returns it. All test processes of a user share as many places as there are processors, and at least two. With more
// guests at the same time, each would be so slow that its kernel and drivers give up.
//
// A test needs one place for all its guests. TakePlace returns immediately for a test that has a place, and for its
// subtests. Call it before you start QEMU, and before you start to measure time.
func TakePlace(t testing.TB) (leave func()) {
	t.Helper()
	name := t.Name()
	if !holders.addTest(name) {
		return func() {}
	}
	place, err := LockPlace(t.Context())
	if err != nil {
		holders.removeTest(name)
		t.Fatalf("take a place for a guest: %v", err)
	}
	leave = sync.OnceFunc(func() {
		_ = place.Close() // closing unlocks it
		holders.removeTest(name)
	})
	t.Cleanup(leave)
	return leave
}

// names are tests that have a place or wait for a place.
type names struct {
	mutex sync.Mutex
	held  map[string]bool
}

var holders = names{held: map[string]bool{}}

// addTest adds a test. It returns false if the test or one of its parents has been added before.
func (n *names) addTest(test string) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for i, c := range test + "/" {
		if c == '/' && n.held[test[:i]] {
			return false
		}
	}
	n.held[test] = true
	return true
}

func (n *names) removeTest(test string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.held, test)
}

// LockPlace is TakePlace for a program, such as the script of a test. Close returns the place.
func LockPlace(ctx context.Context) (io.Closer, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("vmop-guests-%d", os.Getuid()))
	return lockPlace(ctx, dir, max(2, runtime.NumCPU()))
}

// lockPlace locks one of the files of a folder, and returns it. Child processes do not inherit the file.
func lockPlace(ctx context.Context, dir string, count int) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Only the first in the queue looks for a place, so the test that has waited longest is next.
	queue, err := lockFile(filepath.Join(dir, "queue"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	for {
		for i := range count {
			place, err := lockFile(filepath.Join(dir, fmt.Sprintf("place%d", i)), unix.LOCK_EX|unix.LOCK_NB)
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return place, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lockFile opens or creates a file, and locks it until it is closed.
func lockFile(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), how)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, err
		}
	}
}
