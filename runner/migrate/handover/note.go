package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
)

// largest is the maximum size of the file, in bytes.
const largest = 1 << 20

// A Note is the state of a migration that a runner leaves to the next runner. It contains the migration's keys.
type Note struct {
	Record migrate.Record `json:"record"`
	Keys   link.Keys      `json:"keys"`
	// Left is the note of a guest that left earlier. It becomes valid again if no guest arrives; nil means that
	// no guest has left.
	Left *Note `json:"left,omitempty"`
	// Migration is the target's name of the migration; "" means no name.
	Migration string `json:"migration,omitempty"`
	// Images are the target's copies of disks.
	Images []Image `json:"images,omitempty"`
	// Whole reports whether the images contain everything that the source's disks contained when the guest was
	// paused.
	Whole bool `json:"whole,omitempty"`
}

// Path returns the path of the note in a data directory.
func Path(dataDir string) string { return filepath.Join(dataDir, prepare.MigrationFile) }

// OfSource reports whether the note belongs to the source of a migration.
func (n Note) OfSource() bool {
	return n.Record == migrate.Migrating || n.Record == migrate.Released || n.Record == migrate.Moved
}

// Away returns the note of a guest that has left and has not come back, or nil.
func (n Note) Away() *Note {
	if n.Record == migrate.Moved {
		return &n
	}
	return n.Left
}

// Read reads the note in a data directory. If it does not exist, the record is migrate.NoRecord.
func Read(dataDir string) (n Note, err error) {
	path := Path(dataDir)
	text, err := readfile.ReadFile(path, largest)
	if errors.Is(err, fs.ErrNotExist) {
		return Note{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return Note{}, fmt.Errorf("read how far the migration is: %s: %w", path, err)
	}
	return n, nil
}

// Settle settles the images of a guest that will not arrive because its source is gone. Whole images are given to
// the VM, and others are removed. QEMU must not have them open.
func (n Note) Settle() (err error) {
	for _, i := range n.Images {
		if n.Whole {
			err = errors.Join(err, i.Keep())
		} else {
			err = errors.Join(err, i.Drop())
		}
	}
	return err
}

// Write writes the note and syncs it to disk. If Record is empty, it writes the note Left instead; without Left,
// it removes the file.
func (n Note) Write(dataDir string) error {
	path := Path(dataDir)
	if n.Record == migrate.NoRecord && n.Left != nil {
		n = *n.Left
	}
	if n.Record == migrate.NoRecord {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return atomicfile.SyncFolder(dataDir)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600, atomicfile.Synced)
}
