package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vmop/durable"
	"vmop/regular"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/runner/prepare"
)

// largest is how long the file may be, in bytes.
const largest = 1 << 20

// A Note is what a runner leaves to the next one. It has the keys of the migration.
type Note struct {
	Record migrate.Record `json:"record"`
	Keys   link.Keys      `json:"keys"`
	// Left is about a guest that has left before, and holds again if none comes; nil: there was none.
	Left *Note `json:"left,omitempty"`
	// Migration is the target's name of it; "" if it has none.
	Migration string `json:"migration,omitempty"`
	// Images are those of the target to which disks are copied.
	Images []Image `json:"images,omitempty"`
	// Whole says that they have all that the source's disks had when the guest was paused.
	Whole bool `json:"whole,omitempty"`
}

// Path is that of the file in a data directory.
func Path(dataDir string) string { return filepath.Join(dataDir, prepare.MigrationFile) }

// OfSource reports whether it is about a guest that was to leave.
func (n Note) OfSource() bool {
	return n.Record == migrate.Migrating || n.Record == migrate.Released || n.Record == migrate.Moved
}

// Away returns the note of a guest that has left and hasn't come back; nil if there is none.
func (n Note) Away() *Note {
	if n.Record == migrate.Moved {
		return &n
	}
	return n.Left
}

// Read reads the note in a data directory; without one, its record is migrate.NoRecord.
func Read(dataDir string) (n Note, err error) {
	path := Path(dataDir)
	text, err := regular.ReadFile(path, largest)
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

// Settle is for a guest that will not come, as its source is gone: images that are whole are the VM's own now, and
// others are removed. No QEMU has them open.
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

// Write writes the note, which is on the disk when it returns. Without a record it is that of the guest that has left
// before; without one of those, the file is removed.
func (n Note) Write(dataDir string) error {
	path := Path(dataDir)
	if n.Record == migrate.NoRecord && n.Left != nil {
		n = *n.Left
	}
	if n.Record == migrate.NoRecord {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return durable.SyncFolder(dataDir)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.Write(path, append(text, '\n'), 0o600, durable.Synced)
}
