package config

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// A change is told when it has been quiet for quietTime, so that what is
// written in several steps is read once, but not later than longestDelay after
// it began.
const (
	quietTime    = 10 * time.Millisecond
	longestDelay = 200 * time.Millisecond
)

// pollInterval is how often files are looked at where nothing tells of changes.
const pollInterval = time.Second

// restTime is slept after each event of a burst, so that somebody who changes
// files without end can't keep the runner busy.
const restTime = time.Millisecond

// Watch tells when a configuration file, or one of the files beside it
// (display-password, password-expiry), may have changed: whoever receives from
// the channel reads them all again, and finds what there is then. The channel
// is level-triggered. It holds at most one notification, and what happens
// after that was received makes another. The first one comes when the watch
// stands, since the files may have changed after they were read.
//
// A change is one however it is made: writing in place, renaming over the file
// (editors), swapping a symbolic link anywhere in its path (ConfigMaps, see
// https://kubernetes.io/docs/concepts/configuration/configmap/), deleting and
// making anew the file or a folder that it is in. It is told some 10 ms after
// the last step of it, and at the latest 200 ms after the first.
//
// Where the kernel does not tell of changes (no inotify, its limits are
// reached, a network file system) a warning says so, and the files are looked
// at every second.
//
// Watching ends with ctx; then the channel is closed, and nothing is left.
func Watch(ctx context.Context, log *slog.Logger, file string) <-chan struct{} {
	if whole, err := filepath.Abs(file); err == nil {
		file = whole
	}
	w := &watch{
		files: filesOf(file), open: listen, interval: pollInterval,
		log: log.With("config", file), changes: make(chan struct{}, 1),
	}
	go w.run(ctx)
	return w.changes
}

// filesOf returns the paths of a configuration file and of those beside it.
func filesOf(file string) []string {
	dir := filepath.Dir(file)
	return []string{file, filepath.Join(dir, passwordFile), filepath.Join(dir, expiryFile)}
}

// watch is one call of Watch.
type watch struct {
	files    []string
	open     func(ctx context.Context, files []string) (watcher, error)
	interval time.Duration
	log      *slog.Logger
	changes  chan struct{}
}

// A watcher waits for changes of files.
type watcher interface {
	// wait returns true when a file may have changed, false at the deadline
	// (zero: there is none), and an error when it can't tell, or ctx is done.
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
	w.log.Warn("changes of the configuration are looked for every second", "err", err)
	_ = w.follow(ctx, w.poll) // polling ends with ctx only
}

// follow tells of changes until the watcher can't, or ctx is done.
func (w *watch) follow(ctx context.Context, open func(context.Context, []string) (watcher, error)) error {
	eyes, err := open(ctx, w.files)
	if err != nil {
		return err
	}
	defer eyes.close()
	for {
		w.tell()
		if _, err := eyes.wait(ctx, time.Time{}); err != nil {
			return err
		}
		if err := settle(ctx, eyes); err != nil {
			return err
		}
	}
}

// tell leaves a notification, if there is none yet.
func (w *watch) tell() {
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// settle waits until it is quiet, or has not been for too long.
func settle(ctx context.Context, eyes watcher) error {
	for end := time.Now().Add(longestDelay); ; time.Sleep(restTime) {
		deadline := time.Now().Add(quietTime)
		if deadline.After(end) {
			deadline = end
		}
		more, err := eyes.wait(ctx, deadline)
		if err != nil {
			return err
		}
		if !more || !time.Now().Before(end) {
			return nil
		}
	}
}

// poll returns a watcher that looks at the files in an interval.
func (w *watch) poll(_ context.Context, files []string) (watcher, error) {
	return &poller{files: files, interval: w.interval, last: look(files)}, nil
}

// A poller compares what the file system says of the files with what it said
// before.
type poller struct {
	files    []string
	interval time.Duration
	last     []os.FileInfo
	again    bool // tell once more in the next interval
}

// wait implements watcher. A change is told twice: file systems count time in
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
		now := look(p.files)
		switch {
		case !alike(p.last, now):
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

// look returns what the paths lead to; nil for what is not there.
func look(files []string) []os.FileInfo {
	all := make([]os.FileInfo, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			all[i] = info
		}
	}
	return all
}

// alike tells whether files are the same and unchanged.
func alike(a, b []os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || a[i].Mode() != b[i].Mode() ||
			!a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
