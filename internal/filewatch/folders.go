package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// Changes in folders are reported later than changes of files, because editors save in several steps, and often
// several files at the same time.
const (
	folderQuietTime    = 30 * time.Millisecond
	folderLongestDelay = time.Second
)

// A Watch reports changed files in folders, but not in their subfolders. It is for use by one goroutine.
type Watch struct {
	dirs    []string
	before  map[string]fs.FileInfo
	changes <-chan struct{}
}

// New starts to watch folders, which need not exist yet. The watch ends with ctx. New logs a warning if it has to
// poll the folders.
func New(ctx context.Context, log *slog.Logger, dirs ...string) (*Watch, error) {
	w := &Watch{}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("watch the folder %s: %w", dir, syscall.ENOTDIR)
		}
		w.dirs = append(w.dirs, dir+"/")
	}
	w.before = snapshotFiles(w.dirs) // the first notification covers changes until the watch is set up
	watch := newWatch(log, w.dirs)
	watch.quiet, watch.longest = folderQuietTime, folderLongestDelay
	w.changes = watch.changes
	go watch.runWatch(ctx)
	return w, nil
}

// Wait returns the paths of the files that were changed, created or removed since the last call, or since the watch
// began. It returns at least one path; the paths are sorted.
func (w *Watch) Wait(ctx context.Context) ([]string, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case _, open := <-w.changes:
			if !open {
				return nil, errors.New("watch files: the watch has ended")
			}
		}
		now := snapshotFiles(w.dirs)
		changed := changedPaths(w.before, now)
		if w.before = now; len(changed) > 0 {
			return changed, nil
		}
	}
}
