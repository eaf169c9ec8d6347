package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"vmop/diskimage"
	"vmop/durable"
	"vmop/regular"
	"vmop/runner/prepare"
)

// A journal is what a restore replaces; it is in the data directory while one is under way. Until it
// is committed everything is as it was, with new files beside the old ones; from then on it is to be
// finished.
type journal struct {
	Snapshot  string `json:"snapshot"`
	Committed bool   `json:"committed"`
	Steps     []step `json:"steps"`
}

// A step replaces one thing.
type step struct {
	Part Part `json:"part"`
	// Staged is what takes the place of To; empty for a device, which is written in its place.
	Staged string `json:"staged,omitempty"`
	To     string `json:"to"`
}

// readJournal returns nil if there is none.
func readJournal(dataDir string) (*journal, error) {
	text, err := regular.ReadFile(filepath.Join(dataDir, prepare.RestoreFile), prepare.LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var j journal
	if err == nil {
		err = json.Unmarshal(text, &j)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was being restored: %w", err)
	}
	return &j, nil
}

func (j *journal) write(dataDir string) error {
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(dataDir, prepare.RestoreFile), append(text, '\n'), 0o600, durable.Synced)
}

func removeJournal(dataDir string) error {
	if err := os.Remove(filepath.Join(dataDir, prepare.RestoreFile)); err != nil {
		return err
	}
	return durable.SyncFolder(dataDir)
}

// withdraw ends a restore that is not committed: what it has staged is removed.
func (j *journal) withdraw(dataDir string) error {
	for _, s := range j.Steps {
		if s.Staged == "" {
			continue
		}
		if err := errors.Join(os.RemoveAll(s.Staged), diskimage.RemoveLeftovers(s.Staged)); err != nil {
			return err
		}
	}
	return removeJournal(dataDir)
}

// writesDevices reports whether devices are overwritten.
func (j *journal) writesDevices() bool {
	return slices.ContainsFunc(j.Steps, func(s step) bool { return s.Staged == "" })
}

// Recover removes what killed programs have left of snapshots and restores, and finishes a restore
// that was decided upon. It is to be called with the lock of the runner, before the VM is started. A restore
// that was overwriting a device is not finished, since that takes time: the error says how.
func Recover(ctx context.Context, dataDir string) error {
	if err := removeLeftovers(dataDir); err != nil {
		return err
	}
	j, err := readJournal(dataDir)
	switch {
	case err != nil:
		return err
	case j != nil && j.Committed && j.writesDevices():
		return fmt.Errorf("the snapshot %s is being restored, and that was interrupted while a device was overwritten; finish it: "+
			"vmrunner snapshot restore NAME %[1]s", j.Snapshot)
	}
	return finish(ctx, dataDir, nil)
}

// finish finishes a restore, if there is one.
func finish(ctx context.Context, dataDir string, at func(string) error) error {
	j, err := readJournal(dataDir)
	if j == nil || err != nil {
		return err
	}
	if !j.Committed {
		err = j.withdraw(dataDir)
	} else {
		err = j.apply(ctx, dataDir, at)
	}
	if err != nil {
		return fmt.Errorf("finish the restore of the snapshot %s: %w", j.Snapshot, err)
	}
	return nil
}

// apply replaces everything. It may be repeated.
func (j *journal) apply(ctx context.Context, dataDir string, at func(string) error) error {
	for _, s := range j.Steps { // those that may fail come first
		if s.Staged != "" {
			continue
		}
		if err := reach(at, "device "+s.To); err != nil {
			return err
		}
		if err := writeDevice(ctx, filepath.Join(folderOf(dataDir, j.Snapshot), s.Part.Stored), s); err != nil {
			return fmt.Errorf("write %s: %w", s.To, err)
		}
	}
	for _, s := range j.Steps {
		if s.Staged == "" {
			continue
		}
		if err := reach(at, "rename "+s.To); err != nil {
			return err
		}
		if _, err := os.Lstat(s.Staged); errors.Is(err, fs.ErrNotExist) {
			continue // it was before
		}
		if s.Part.Kind == Folder {
			if err := os.RemoveAll(s.To); err != nil {
				return err
			}
			if err := reach(at, "removed "+s.To); err != nil {
				return err
			}
		}
		if err := durable.Rename(s.Staged, s.To); err != nil {
			return err
		}
	}
	if err := reach(at, "end"); err != nil {
		return err
	}
	return removeJournal(dataDir)
}

// reach tells a test how far a restore has come, which may end it there.
func reach(at func(string) error, point string) error {
	if at == nil {
		return nil
	}
	return at(point)
}

// writeDevice overwrites a device.
func writeDevice(ctx context.Context, from string, s step) error {
	if s.Part.StoredFormat != "raw" {
		return convert(ctx, from, s.To, nil)
	}
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(s.To, os.O_RDWR|syscall.O_EXCL, 0)
	if err != nil {
		return err
	}
	err = copyData(ctx, in, out, s.Part.Size, false, nil)
	return errors.Join(err, out.Sync(), out.Close())
}
