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

// Of folders a change is reported later than of files, because editors save in several
// steps, and several files at once.
const (
	folderQuietTime    = 30 * time.Millisecond
	folderLongestDelay = time.Second
)

// A Watch reports changed files of folders; not those of their subfolders. It is for
// one goroutine.
type Watch struct {
	dirs    []string
	before  map[string]fs.FileInfo
	changes <-chan struct{}
}

// New begins to watch folders, which need not be there yet. The watch ends with ctx. A
// warning is logged where the folders have to be polled.
func New(ctx context.Context, log *slog.Logger, dirs ...string) (*Watch, error) {
	w := &Watch{}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("watch the folder %s: %w", dir, syscall.ENOTDIR)
		}
		w.dirs = append(w.dirs, dir+"/")
	}
	w.before = snapshot(w.dirs) // the first notification finds what happens until the watch stands
	watch := newWatch(log, w.dirs)
	watch.quiet, watch.longest = folderQuietTime, folderLongestDelay
	w.changes = watch.changes
	go watch.run(ctx)
	return w, nil
}

// Wait returns the paths of the files that have changed, are new or are gone
// since the last call, or since the watch began; at least one, sorted.
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
		now := snapshot(w.dirs)
		changed := differences(w.before, now)
		if w.before = now; len(changed) > 0 {
			return changed, nil
		}
	}
}
