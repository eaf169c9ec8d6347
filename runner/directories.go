package runner

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"vmop/internal/filewatch"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// A directory is a directory that a running VM needs.
type directory struct {
	path string
	lost string // the consequence of losing it, and what to do
	// open is the directory that existed first, or nil if it did not exist. While it stays open, a replacement
	// directory at the same path has a different inode.
	open *os.File
}

// openCurrent opens the directory that currently exists at the path.
func (d *directory) openCurrent() {
	d.close()
	d.open, _ = os.Open(d.path) // nil if the directory is gone
}

func (d *directory) close() {
	if d.open != nil {
		d.open.Close()
	}
}

// inPlace reports whether the path still leads to the opened directory.
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

// A directoryWatch monitors the directories of a running VM.
type directoryWatch struct {
	data, runtime directory
	files         []string // required files in the runtime directory
	// remember reads the current contents of the runtime directory, and restore creates the directory again.
	remember func()
	restore  func(context.Context) error
	missing  []string // messages about what can't be restored

	tracker  *status.Tracker
	log      *slog.Logger
	reported []string
	since    time.Time // when the runtime directory was first found incomplete; zero: it is complete
}

// Consequences of a lost directory, for its message.
const (
	dataLost = "was removed or renamed while the VM is running: its disks there, its TPM and its firmware variables are " +
		"lost when it ends; put the directory back, or save the guest's data before the VM is stopped"
	runtimeLost = "was removed or renamed while the VM is running, and can't be created again, so that the VM can only be reached " +
		"with vmrunner stop"
)

// Delays before the runtime directory is restored.
const (
	quietTime   = 300 * time.Millisecond // until it is restored, so that whoever removes it has finished
	restoreTime = time.Second            // until a failed attempt is repeated
)

// openCurrent opens the directories that currently exist.
func (w *directoryWatch) openCurrent() {
	w.data.openCurrent()
	w.runtime.openCurrent()
}

func (w *directoryWatch) close() {
	w.data.close()
	w.runtime.close()
}

// watchDirectories restores the runtime directory when it disappears. While a directory of the VM is missing, the
// status shows a problem. A directory that is put back is recognized. watch returns when ctx is done.
func (w *directoryWatch) watchDirectories(ctx context.Context) {
	changed := filewatch.Files(ctx, w.log, append([]string{w.data.path, w.runtime.path}, w.files...)...)
	for {
		again := w.checkDirectories(ctx)
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

// checkDirectories checks the directories once. again fires when the next check is due; nil means only after a change.
func (w *directoryWatch) checkDirectories(ctx context.Context) (again <-chan time.Time) {
	messages := slices.Clone(w.missing)
	if !w.data.inPlace() {
		messages = append(messages, w.data.path+" "+w.data.lost)
	}
	if w.isWhole() {
		w.since = time.Time{}
		w.remember()
	} else if missed := w.missedFor(); missed < quietTime {
		return time.After(quietTime - missed)
	} else if err := w.restore(ctx); err != nil {
		messages = append(messages, w.runtime.path+" "+w.runtime.lost+": "+err.Error())
		again = time.After(restoreTime)
	} else if ctx.Err() == nil {
		w.since = time.Time{}
		w.runtime.openCurrent()
		w.log.Warn("the runtime directory was removed while the VM is running, and was created again", "path",
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

// missedFor returns how long the runtime directory is known to be incomplete.
func (w *directoryWatch) missedFor() time.Duration {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since)
}

// isWhole reports whether the runtime directory contains what commands and the next runner need.
func (w *directoryWatch) isWhole() bool {
	return w.runtime.inPlace() && !slices.ContainsFunc(w.files, func(path string) bool {
		_, err := os.Lstat(path)
		return err != nil
	})
}

// describeRemoved returns a message about sockets that were removed while the VM had no runner.
func describeRemoved(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	return []string{strings.Join(paths, ", ") + " was removed while the VM had no runner: what it is for does not work until " +
		"the VM is started again"}
}
