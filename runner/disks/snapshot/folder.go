package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/prepare"
)

// Prefixes of the names of snapshots while they are created or removed.
const (
	making   = ".making-"
	removing = ".removing-"
)

// Files in the folder of a snapshot.
const (
	descriptionFile = "snapshot.json"
	configFile      = "config.yaml"
)

// version changes when earlier programs can't restore a snapshot any more.
const version = 1

// Errors of snapshots.
var (
	// ErrUnknown: no snapshot has this name.
	ErrUnknown = errors.New("there is no such snapshot")
	// ErrExists: a snapshot with this name exists.
	ErrExists = errors.New("there is a snapshot of this name")
	// ErrName: the name isn't valid for a snapshot.
	ErrName = errors.New("is not a valid snapshot name: use letters, digits, ., _ and -, at most 63, the first a letter " +
		"or digit")
	// ErrAttached: a disk was attached while the VM is running.
	ErrAttached = errors.New("was attached while the VM is running, and would be missing in the snapshot; detach it, or " +
		"restart the VM with it")
)

// A Description describes the contents of a snapshot.
type Description struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// VM is the name of the VM, and UUID the uuid that its guest sees.
	VM   string `json:"vm"`
	UUID string `json:"uuid,omitempty"`
	// Running reports whether the VM was running, Frozen whether its guest's file systems were frozen. A snapshot
	// of a running VM that wasn't frozen is crash-consistent, and Message contains the reason.
	Running bool   `json:"running"`
	Frozen  bool   `json:"frozen"`
	Message string `json:"message,omitempty"`
	Parts   []Part `json:"parts"`
	// Omitted are the serial numbers of the VM's disks on NBD servers, which are missing in the snapshot.
	Omitted []string `json:"omitted,omitempty"`

	// Bytes is the space that the snapshot occupies on the host.
	Bytes int64 `json:"bytes,omitempty"`
}

// Consistency returns "stopped", "frozen" or "crash-consistent".
func (d Description) Consistency() string {
	switch {
	case !d.Running:
		return "stopped"
	case d.Frozen:
		return "frozen"
	}
	return "crash-consistent"
}

// DefaultName returns the name of a snapshot without a given name: "2026-11-24-102300".
func DefaultName(now time.Time) string { return now.UTC().Format("2006-01-02-150405") }

// CheckName returns an error that wraps ErrName if no snapshot can have the name.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`).MatchString(name) {
		return fmt.Errorf("%q %w", name, ErrName)
	}
	return nil
}

func snapshotFolder(dataDir, name string) string {
	return filepath.Join(dataDir, prepare.SnapshotsFolder, name)
}

// List returns the snapshots in a data directory, the oldest first. It omits unreadable snapshots, and lists them
// in the error.
func List(dataDir string) ([]Description, error) {
	entries, err := os.ReadDir(filepath.Join(dataDir, prepare.SnapshotsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Description
	for _, e := range entries {
		if CheckName(e.Name()) != nil {
			continue
		}
		d, e := Read(dataDir, e.Name())
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		list = append(list, d)
	}
	slices.SortStableFunc(list, func(a, b Description) int { return a.Created.Compare(b.Created) })
	return list, err
}

// Read returns the description of a snapshot. The error is ErrUnknown if it doesn't exist.
func Read(dataDir, name string) (d Description, err error) {
	if err := CheckName(name); err != nil {
		return d, err
	}
	folder := snapshotFolder(dataDir, name)
	text, err := readfile.ReadFile(filepath.Join(folder, descriptionFile), prepare.LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return d, fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	switch {
	case err != nil:
		return d, fmt.Errorf("read the snapshot %s: %w", name, err)
	case d.Version != version:
		return d, fmt.Errorf("read the snapshot %s: it is of version %d, and this program knows %d", name, d.Version, version)
	}
	for _, p := range d.Parts {
		if !filepath.IsLocal(p.Stored) || filepath.Base(p.Stored) != p.Stored {
			return d, fmt.Errorf("read the snapshot %s: %q is not the name of a file in its folder", name, p.Stored)
		}
	}
	d.Name, d.Bytes = name, storedBytes(folder)
	return d, nil
}

// Config returns the text of the configuration in a snapshot, and its path.
func Config(dataDir, name string) (text []byte, path string, err error) {
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	path = filepath.Join(snapshotFolder(dataDir, name), configFile)
	text, err = readfile.ReadFile(path, prepare.LargestRecord)
	if err != nil {
		return nil, "", fmt.Errorf("read the configuration in the snapshot %s: %w", name, err)
	}
	return text, path, nil
}

// storedBytes returns the space that a folder occupies, in bytes.
func storedBytes(folder string) (bytes int64) {
	_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is being removed
		}
		if info, err := e.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += s.Blocks * 512 // the unit of st_blocks
			}
		}
		return nil
	})
	return bytes
}

// Remove removes a snapshot. The caller must ensure that it is not being restored.
func Remove(dataDir, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if j, err := readJournal(dataDir); err != nil || j != nil && j.Committed && j.Snapshot == name {
		return errors.Join(err, fmt.Errorf("remove the snapshot %s: it is being restored, and was interrupted; finish that first: "+
			"vmrunner snapshot restore", name))
	}
	gone := snapshotFolder(dataDir, removing+name)
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove the snapshot %s: %w", name, err)
	}
	err := atomicfile.Rename(snapshotFolder(dataDir, name), gone) // half a snapshot must not look like a snapshot
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the snapshot %s: %w", name, ErrUnknown)
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return fmt.Errorf("remove the snapshot %s: %w", name, err)
	}
	return nil
}

// removeLeftovers removes unfinished and half-removed snapshots. Only the holder of the runner's lock may call
// it.
func removeLeftovers(dataDir string) error {
	entries, err := os.ReadDir(filepath.Join(dataDir, prepare.SnapshotsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), making) || strings.HasPrefix(e.Name(), removing) {
			err = errors.Join(err, os.RemoveAll(snapshotFolder(dataDir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("remove what is left of unfinished snapshots: %w", err)
	}
	return nil
}
