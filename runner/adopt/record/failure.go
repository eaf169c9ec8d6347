package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"vmop/internal/atomicfile"
	"vmop/runner/prepare"
)

// A StartFailure describes the last start of a VM if it failed.
type StartFailure struct {
	At time.Time `json:"at"`
	// Message is the cause in one sentence, with the remedy as far as it is known.
	Message string `json:"message"`
}

// Write records it in a data directory.
func (f StartFailure) Write(dataDir string) error {
	return writeJSON(failureFile(dataDir), f, atomicfile.Synced)
}

func failureFile(dataDir string) string { return filepath.Join(dataDir, prepare.FailedFile) }

// ReadStartFailure reads it, and reports whether the last start failed.
func ReadStartFailure(dataDir string) (f StartFailure, failed bool, err error) {
	failed, err = readJSON(failureFile(dataDir), &f)
	return f, failed, err
}

// ForgetStartFailure removes it when a VM is started again.
func ForgetStartFailure(dataDir string) error {
	if err := os.Remove(failureFile(dataDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
