package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"vmop/internal/atomicfile"
	"vmop/runner/prepare"
)

// A Progress is the progress of copying the disks, in bytes.
type Progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// build is an unfinished snapshot.
type build struct {
	dataDir string
	folder  string // its temporary name
	Description
}

// beginSnapshot creates the folder of a new snapshot. The caller holds the lock of the runner.
func beginSnapshot(vm *prepare.VM, name string, now time.Time) (*build, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(snapshotFolder(vm.DataDir, name)); err == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrExists)
	}
	if err := removeLeftovers(vm.DataDir); err != nil {
		return nil, err
	}
	b := &build{dataDir: vm.DataDir, folder: snapshotFolder(vm.DataDir, making+name), Description: Description{
		Version: version, Name: name, Created: now.UTC().Truncate(time.Second), VM: vm.Spec.Name, UUID: vm.Spec.UUID,
	}}
	err := os.MkdirAll(filepath.Dir(b.folder), 0o700)
	if err == nil {
		err = atomicfile.SyncFolder(vm.DataDir)
	}
	if err == nil {
		err = os.Mkdir(b.folder, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(b.folder, configFile), vm.Config.Text(), 0o600)
	}
	if err != nil {
		return nil, b.abandonBuild(fmt.Errorf("begin the snapshot %s: %w", name, err))
	}
	return b, nil
}

// abandonBuild removes the unfinished snapshot, and returns the error that is the reason.
func (b *build) abandonBuild(err error) error { return errors.Join(err, os.RemoveAll(b.folder)) }

func (b *build) storedPath(stored string) string { return filepath.Join(b.folder, stored) }

// copyState copies a part that isn't an image. It skips a missing part.
func (b *build) copyState(ctx context.Context, p Part) error {
	names := []string{""}
	if p.Kind == Folder {
		entries, err := os.ReadDir(p.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.Mkdir(b.storedPath(p.Stored), 0o700)
		}
		if err != nil {
			return err
		}
		names = nil
		for _, e := range entries {
			if e.Type().IsRegular() && e.Name()[0] != '.' { // a lock, or half written
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		_, err := copyFile(ctx, filepath.Join(p.Path, name), filepath.Join(b.storedPath(p.Stored), name), nil)
		if errors.Is(err, fs.ErrNotExist) && p.Kind == File {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // swtpm replaces files
			return err
		}
	}
	b.Parts = append(b.Parts, p)
	return nil
}

// finishBuild makes the snapshot durable and gives it its name.
func (b *build) finishBuild() (Description, error) {
	text, err := json.MarshalIndent(b.Description, "", "  ")
	if err == nil {
		err = os.WriteFile(b.storedPath(descriptionFile), append(text, '\n'), 0o600)
	}
	if err == nil {
		err = syncAll(b.folder)
	}
	if err == nil {
		err = atomicfile.Rename(b.folder, snapshotFolder(b.dataDir, b.Name))
	}
	if err != nil {
		return Description{}, b.abandonBuild(fmt.Errorf("write the snapshot %s: %w", b.Name, err))
	}
	return Read(b.dataDir, b.Name)
}

// syncAll syncs everything below a folder.
func syncAll(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return atomicfile.SyncFolder(path)
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
}
