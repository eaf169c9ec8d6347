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
	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/runner/prepare"
)

// A journal lists what a restore replaces. It is in the data directory during a restore. Until it is committed,
// the old files are unchanged, with new files next to them. After that, the restore must be finished.
type journal struct {
	Snapshot  string `json:"snapshot"`
	Committed bool   `json:"committed"`
	Steps     []step `json:"steps"`
}

// A step replaces one file, folder or device.
type step struct {
	Part Part `json:"part"`
	// Staged is the replacement for To; empty for a device, which is overwritten in place.
	Staged string `json:"staged,omitempty"`
	To     string `json:"to"`
}

// readJournal returns nil if there is no journal.
func readJournal(dataDir string) (*journal, error) {
	text, err := readfile.ReadFile(filepath.Join(dataDir, prepare.RestoreFile), prepare.LargestNote)
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

func (j *journal) writeJournal(dataDir string) error {
	text, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dataDir, prepare.RestoreFile), append(text, '\n'), 0o600, atomicfile.Synced)
}

func removeJournal(dataDir string) error {
	if err := os.Remove(filepath.Join(dataDir, prepare.RestoreFile)); err != nil {
		return err
	}
	return atomicfile.SyncFolder(dataDir)
}

// withdrawRestore ends a restore that is not committed: it removes the staged files.
func (j *journal) withdrawRestore(dataDir string) error {
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

// Recover removes unfinished snapshots and restores of killed programs, and finishes a committed restore. Call it
// with the lock of the runner, before the VM is started. It doesn't finish a restore that was overwriting a
// device, because that takes time: the error contains the command for it.
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
	return finishRestore(ctx, dataDir, nil)
}

// finishRestore finishes a restore, if there is one.
func finishRestore(ctx context.Context, dataDir string, at func(string) error) error {
	j, err := readJournal(dataDir)
	if j == nil || err != nil {
		return err
	}
	if !j.Committed {
		err = j.withdrawRestore(dataDir)
	} else {
		err = j.applyJournal(ctx, dataDir, at)
	}
	if err != nil {
		return fmt.Errorf("finish the restore of the snapshot %s: %w", j.Snapshot, err)
	}
	return nil
}

// applyJournal replaces everything. It may be repeated.
func (j *journal) applyJournal(ctx context.Context, dataDir string, at func(string) error) error {
	for _, s := range j.Steps { // first the steps that may fail
		if s.Staged != "" {
			continue
		}
		if err := reachPoint(at, "device "+s.To); err != nil {
			return err
		}
		if err := writeDevice(ctx, filepath.Join(snapshotFolder(dataDir, j.Snapshot), s.Part.Stored), s); err != nil {
			return fmt.Errorf("write %s: %w", s.To, err)
		}
	}
	for _, s := range j.Steps {
		if s.Staged == "" {
			continue
		}
		if err := reachPoint(at, "rename "+s.To); err != nil {
			return err
		}
		if _, err := os.Lstat(s.Staged); errors.Is(err, fs.ErrNotExist) {
			continue // it was already renamed
		}
		if s.Part.Kind == Folder {
			if err := os.RemoveAll(s.To); err != nil {
				return err
			}
			if err := reachPoint(at, "removed "+s.To); err != nil {
				return err
			}
		}
		if err := atomicfile.Rename(s.Staged, s.To); err != nil {
			return err
		}
	}
	if err := reachPoint(at, "end"); err != nil {
		return err
	}
	if err := prepare.KeepGeneration(dataDir, config.NewUUID()); err != nil {
		return err
	}
	return removeJournal(dataDir)
}

// reachPoint reports the progress of a restore to a test. The test may end the restore there.
func reachPoint(at func(string) error, point string) error {
	if at == nil {
		return nil
	}
	return at(point)
}

// writeDevice overwrites a device.
func writeDevice(ctx context.Context, from string, s step) error {
	if s.Part.StoredFormat != "raw" {
		return convertDisk(ctx, from, s.To, nil)
	}
	in, err := readfile.Open(from)
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
