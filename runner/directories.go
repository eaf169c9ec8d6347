package runner

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"vmop/filewatch"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// A directory is one that a VM needs as long as it runs.
type directory struct {
	path string
	lost string // what it means that it is gone, and what to do
	// open is what was there first, nil if nothing was: as long as it is open, another directory in its
	// place has another inode.
	open *os.File
}

// openCurrent opens the directory that is there now.
func (d *directory) openCurrent() {
	d.close()
	d.open, _ = os.Open(d.path) // or it is gone
}

func (d *directory) close() {
	if d.open != nil {
		d.open.Close()
	}
}

// inPlace reports whether the directory is still found by its path.
func (d *directory) inPlace() bool {
	if d.open == nil {
		return false
	}
	was, err := d.open.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(d.path)
	return err == nil && os.SameFile(now, was)
}

// A directoryWatch looks after the directories of a VM that runs.
type directoryWatch struct {
	data, runtime directory
	files         []string // of the runtime directory, that must be there
	// remember takes in what is in the runtime directory, and restore makes it again.
	remember func()
	restore  func(context.Context) error
	missing  []string // what can't be restored, for people

	tracker  *status.Tracker
	log      *slog.Logger
	reported []string
	since    time.Time // when the runtime directory was missed; zero: it is whole
}

// Lost is what it means that a directory is gone.
const (
	dataLost = "was removed or renamed while the VM is running: its disks there, its TPM and its firmware variables are " +
		"lost when it ends; put the directory back, or save the guest's data before the VM is stopped"
	runtimeLost = "was removed or renamed while the VM is running, and can't be made again, so that the VM is only reached " +
		"by vmrunner stop"
)

// Times of the runtime directory.
const (
	quietTime   = 300 * time.Millisecond // after which it is made again: whoever removes it has ended
	restoreTime = time.Second            // after which that is tried again
)

// openCurrent opens the directories that are there.
func (w *directoryWatch) openCurrent() {
	w.data.openCurrent()
	w.runtime.openCurrent()
}

func (w *directoryWatch) close() {
	w.data.close()
	w.runtime.close()
}

// watch makes the runtime directory again when it is gone, and has a problem in the status while
// a directory of the VM isn't in its place, until ctx is done. A directory that is put back is
// found again.
func (w *directoryWatch) watch(ctx context.Context) {
	changed := filewatch.Files(ctx, w.log, append([]string{w.data.path, w.runtime.path}, w.files...)...)
	for {
		again := w.check(ctx)
		select {
		case _, more := <-changed:
			if !more {
				return
			}
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// check looks at the directories, and returns when to do that again, if not only when they change.
func (w *directoryWatch) check(ctx context.Context) (again <-chan time.Time) {
	messages := slices.Clone(w.missing)
	if !w.data.inPlace() {
		messages = append(messages, w.data.path+" "+w.data.lost)
	}
	if w.whole() {
		w.since = time.Time{}
		w.remember()
	} else if missed := w.missed(); missed < quietTime {
		return time.After(quietTime - missed)
	} else if err := w.restore(ctx); err != nil {
		messages = append(messages, w.runtime.path+" "+w.runtime.lost+": "+err.Error())
		again = time.After(restoreTime)
	} else if ctx.Err() == nil {
		w.since = time.Time{}
		w.runtime.openCurrent()
		w.log.Warn("the runtime directory was removed while the VM is running, and was made again", "path",
			w.runtime.path)
	}
	if slices.Equal(messages, w.reported) {
		return again
	}
	faults := status.Faults{Reason: vmstatus.ReasonDirectoryLost, Messages: messages}
	_ = w.tracker.Update(faults) // every state accepts them
	for _, m := range messages {
		if !slices.Contains(w.reported, m) {
			w.log.Warn("a directory is lost", "err", m)
		}
	}
	w.reported = messages
	return again
}

// missed returns how long the runtime directory is known not to be whole.
func (w *directoryWatch) missed() time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since)
}

// whole reports whether the runtime directory has what verbs and the next runner need.
func (w *directoryWatch) whole() bool {
	return w.runtime.inPlace() && !slices.ContainsFunc(w.files, func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

// unreachable describes sockets that were removed while the VM had no runner.
func unreachable(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	return []string{strings.Join(paths, ", ") + " was removed while the VM had no runner: what it is for does not work until " +
		"the VM is started again"}
}
