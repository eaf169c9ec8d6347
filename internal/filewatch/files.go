package filewatch

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A change is reported after quietTime without further changes, so that a file written in several steps is read
// once. It is reported at the latest longestDelay after it began.
const (
	quietTime    = 10 * time.Millisecond
	longestDelay = 200 * time.Millisecond
)

// hungTime is the time limit for a file system to resolve a path.
const hungTime = time.Second

// pollInterval is the polling interval where the kernel reports no changes.
const pollInterval = time.Second

// restTime is the pause after each event of a burst, so that a program that changes files endlessly can't keep this
// program busy.
const restTime = time.Millisecond

// Files reports when one of the files may have changed. After each notification the receiver reads all the files
// again. The channel is level-triggered: it holds at most one notification, and changes after a receive cause
// another notification. The first notification arrives as soon as the watch is set up, because the files may have
// changed after they were read.
//
// A change is reported about 10 ms after its last step, and at most 200 ms after its first step. Files logs a
// warning if it has to poll the files.
//
// The watch ends with ctx. It then closes the channel and releases all resources.
func Files(ctx context.Context, log *slog.Logger, files ...string) <-chan struct{} {
	w := newWatch(log, files)
	go w.runWatch(ctx)
	return w.changes
}

// watch is one call of Files or New. A path with a slash at its end stands for all files in a folder.
type watch struct {
	paths          []string
	open           func(ctx context.Context, paths []string) (watcher, error)
	quiet, longest time.Duration
	interval       time.Duration
	log            *slog.Logger
	changes        chan struct{}
}

func newWatch(log *slog.Logger, paths []string) *watch {
	w := &watch{
		open: listenToKernel, quiet: quietTime, longest: longestDelay, interval: pollInterval,
		log: log, changes: make(chan struct{}, 1),
	}
	for _, path := range paths {
		if whole, err := filepath.Abs(path); err == nil && isFolder(path) {
			path = whole + "/"
		} else if err == nil {
			path = whole
		}
		w.paths = append(w.paths, path)
	}
	return w
}

func isFolder(path string) bool { return strings.HasSuffix(path, "/") }

// A watcher waits for changes of files.
type watcher interface {
	// wait returns true when a file may have changed, and false at the deadline (zero means no deadline). It returns
	// an error when it can no longer detect changes, or when ctx is done.
	wait(ctx context.Context, deadline time.Time) (bool, error)
	// close releases the watcher's resources. It may be called at any time.
	close()
}

func (w *watch) runWatch(ctx context.Context) {
	defer close(w.changes)
	err := w.followChanges(ctx, w.open)
	if ctx.Err() != nil {
		return
	}
	w.log.Warn("files are polled for changes every second", "err", err)
	_ = w.followChanges(ctx, w.pollFiles) // polling ends only with ctx
}

// followChanges reports changes until the watcher fails or ctx is done.
func (w *watch) followChanges(ctx context.Context, open func(context.Context, []string) (watcher, error)) error {
	source, err := open(ctx, w.paths)
	if err != nil {
		return err
	}
	defer source.close()
	for {
		w.notifyOnce()
		if _, err := source.wait(ctx, time.Time{}); err != nil {
			return err
		}
		notified := w.notifyBy(time.Now().Add(w.longest + hungTime))
		err := w.awaitQuiet(ctx, source)
		notified()
		if err != nil {
			return err
		}
	}
}

// notifyBy sends a notification at a time, unless end is called before, because the watcher may hang together with
// the file system.
func (w *watch) notifyBy(at time.Time) (end func()) {
	left := make(chan struct{})
	timer := time.AfterFunc(time.Until(at), func() {
		w.notifyOnce()
		close(left)
	})
	return func() {
		if !timer.Stop() {
			<-left
		}
	}
}

// notifyOnce sends a notification, unless the channel already contains one.
func (w *watch) notifyOnce() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// awaitQuiet waits for a quiet time without changes, or until the longest delay is over.
func (w *watch) awaitQuiet(ctx context.Context, source watcher) error {
	for end := time.Now().Add(w.longest); ; time.Sleep(restTime) {
		deadline := time.Now().Add(w.quiet)
		if deadline.After(end) {
			deadline = end
		}
		more, err := source.wait(ctx, deadline)
		if err != nil {
			return err
		}
		if !more || !time.Now().Before(end) {
			return nil
		}
	}
}

// pollFiles returns a watcher that checks the files at an interval.
func (w *watch) pollFiles(_ context.Context, paths []string) (watcher, error) {
	return &poller{paths: paths, interval: w.interval, last: snapshotFiles(paths)}, nil
}

// A poller compares the file system's current information about the files with the earlier information.
type poller struct {
	paths    []string
	interval time.Duration
	last     map[string]fs.FileInfo
	again    bool // report once more in the next interval
}

// wait implements watcher. It reports each change twice. File systems measure time in steps of some milliseconds, so
// a file that changed again right after the check can look the same.
func (p *poller) wait(ctx context.Context, deadline time.Time) (bool, error) {
	for {
		delay := p.interval
		if !deadline.IsZero() {
			delay = time.Until(deadline)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(delay):
		}
		now := snapshotFiles(p.paths)
		switch {
		case len(changedPaths(p.last, now)) > 0:
			p.last, p.again = now, true
			return true, nil
		case !deadline.IsZero():
			return false, nil
		case p.again:
			p.again = false
			return true, nil
		}
	}
}

func (p *poller) close() {}

// snapshotFiles returns information about the files at the paths, and about the files directly in folders. It leaves
// out missing files.
func snapshotFiles(paths []string) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, path := range paths {
		if !isFolder(path) {
			if info, err := os.Stat(path); err == nil {
				found[path] = info
			}
			continue
		}
		entries, _ := os.ReadDir(path) // a missing folder is empty
		for _, e := range entries {
			file := filepath.Join(path, e.Name())
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				found[file] = info
			}
		}
	}
	return found
}

// changedPaths returns the paths of changed, new and removed files, sorted.
func changedPaths(before, now map[string]fs.FileInfo) []string {
	changed := map[string]bool{}
	for path, info := range now {
		if old, known := before[path]; !known || !isUnchanged(old, info) {
			changed[path] = true
		}
	}
	for path := range before {
		if _, there := now[path]; !there {
			changed[path] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// isUnchanged reports whether both are the same, unchanged file.
func isUnchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
