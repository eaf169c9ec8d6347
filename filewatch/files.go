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

// A change is reported when it has been quiet for quietTime, so that what is
// written in several steps is read once, but not later than longestDelay after
// it began.
const (
	quietTime    = 10 * time.Millisecond
	longestDelay = 200 * time.Millisecond
)

// hungTime is how long a file system may take to tell what a path leads to.
const hungTime = time.Second

// pollInterval is how often files are polled where the kernel reports no changes.
const pollInterval = time.Second

// restTime is slept after each event of a burst, so that a program that changes
// files without end can't keep this one busy.
const restTime = time.Millisecond

// Files reports when one of some files may have changed: whatever receives from the
// channel reads them all again, and finds what there is then. The channel is
// level-triggered. It holds at most one notification, and what happens after that was
// received makes another. The first one comes when the watch stands, since the files
// may have changed after they were read.
//
// A change is reported some 10 ms after the last step of it, and at the latest 200 ms
// after the first. A warning is logged where the files have to be polled.
//
// Watching ends with ctx; then the channel is closed, and nothing is left.
func Files(ctx context.Context, log *slog.Logger, files ...string) <-chan struct{} {
	w := newWatch(log, files)
	go w.run(ctx)
	return w.changes
}

// watch is one call of Files or New. A path that ends with a slash stands for all
// files of a folder.
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
		open: listen, quiet: quietTime, longest: longestDelay, interval: pollInterval,
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
	// wait returns true when a file may have changed, false at the deadline
	// (zero: there is none), and an error when it can't know, or ctx is done.
	wait(ctx context.Context, deadline time.Time) (bool, error)
	// close releases what the watcher holds. It may be called at any time.
	close()
}

func (w *watch) run(ctx context.Context) {
	defer close(w.changes)
	err := w.follow(ctx, w.open)
	if ctx.Err() != nil {
		return
	}
	w.log.Warn("files are polled for changes every second", "err", err)
	_ = w.follow(ctx, w.poll) // polling ends with ctx only
}

// follow reports changes until the watcher can't, or ctx is done.
func (w *watch) follow(ctx context.Context, open func(context.Context, []string) (watcher, error)) error {
	source, err := open(ctx, w.paths)
	if err != nil {
		return err
	}
	defer source.close()
	for {
		w.notify()
		if _, err := source.wait(ctx, time.Time{}); err != nil {
			return err
		}
		notified := w.notifyBy(time.Now().Add(w.longest + hungTime))
		err := w.settle(ctx, source)
		notified()
		if err != nil {
			return err
		}
	}
}

// notifyBy leaves a notification at a time, unless the function that it returns is called
// before: the watcher may hang with the file system.
func (w *watch) notifyBy(at time.Time) (end func()) {
	left := make(chan struct{})
	timer := time.AfterFunc(time.Until(at), func() {
		w.notify()
		close(left)
	})
	return func() {
		if !timer.Stop() {
			<-left
		}
	}
}

// notify leaves a notification, if there is none yet.
func (w *watch) notify() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// settle waits until it is quiet, or has not been for too long.
func (w *watch) settle(ctx context.Context, source watcher) error {
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

// poll returns a watcher that looks at the files in an interval.
func (w *watch) poll(_ context.Context, paths []string) (watcher, error) {
	return &poller{paths: paths, interval: w.interval, last: snapshot(paths)}, nil
}

// A poller compares what the file system says of the files with what it said
// before.
type poller struct {
	paths    []string
	interval time.Duration
	last     map[string]fs.FileInfo
	again    bool // report once more in the next interval
}

// wait implements watcher. A change is reported twice: file systems count time in
// steps of some milliseconds, so a file that was changed once more just after
// it was looked at can look the same.
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
		now := snapshot(p.paths)
		switch {
		case len(differences(p.last, now)) > 0:
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

// snapshot returns what the paths lead to, and of folders the files directly in them.
// What is not there is left out.
func snapshot(paths []string) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, path := range paths {
		if !isFolder(path) {
			if info, err := os.Stat(path); err == nil {
				found[path] = info
			}
			continue
		}
		entries, _ := os.ReadDir(path) // a folder that is not there has none
		for _, e := range entries {
			file := filepath.Join(path, e.Name())
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				found[file] = info
			}
		}
	}
	return found
}

// differences returns the paths whose files have changed, are new or are gone, sorted.
func differences(before, now map[string]fs.FileInfo) []string {
	changed := map[string]bool{}
	for path, info := range now {
		if old, known := before[path]; !known || !same(old, info) {
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

// same reports whether it is one file, and unchanged.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}
