package runner

import (
	"context"
	"log/slog"
	"os"

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

// inPlace reports whether the directory is still found by its path.
func (d directory) inPlace() bool {
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

// watchDirectories has a problem in the status while a directory of the VM isn't in its place
// any more, until ctx is done. A directory that is put back is found again.
func watchDirectories(ctx context.Context, tracker *status.Tracker, log *slog.Logger, dataDir, runtimeDir string) {
	all := []directory{
		{dataDir, "was removed or renamed while the VM is running: its disks there, its TPM and its firmware variables are " +
			"lost when it ends; put the directory back, or save the guest's data before the VM is stopped", nil},
		{runtimeDir, "was removed or renamed while the VM is running: vmrunner does not find the VM, and no other runner can " +
			"adopt it; put the directory back, or end the VM by a TERM to its runner and start it again", nil},
	}
	var paths []string
	for i := range all {
		if all[i].open, _ = os.Open(all[i].path); all[i].open != nil { // or gone already
			defer all[i].open.Close()
		}
		paths = append(paths, all[i].path)
	}
	reported := 0
	for changed := filewatch.Files(ctx, log, paths...); ; {
		var messages []string
		for _, d := range all {
			if !d.inPlace() {
				messages = append(messages, d.path+" "+d.lost)
			}
		}
		if len(messages) != reported {
			faults := status.Faults{Reason: vmstatus.ReasonDirectoryLost, Messages: messages}
			_ = tracker.Update(faults) // every state accepts them
			for _, m := range messages {
				log.Warn("a directory is lost", "err", m)
			}
			reported = len(messages)
		}
		if _, more := <-changed; !more {
			return
		}
	}
}
