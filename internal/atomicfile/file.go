// Package atomicfile writes files atomically. A concurrent reader sees either the old or the new content, and a full
// disk or a killed program never destroys the old content.
//
// A file is written under a temporary name in its folder, ".NAME.*", and then renamed. Each call states whether the
// file must survive a power failure:
//
//   - [Synced] files survive it, at a cost of some milliseconds.
//   - [Volatile] files may be lost, which suits a runtime directory or a cache. When a VM starts, it writes into its
//     runtime directory several times without waiting for the disk.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// A Lifetime determines which failures a written file survives.
type Lifetime bool

const (
	// Synced files survive a power failure: when the call returns, the content and the name are on the disk.
	Synced Lifetime = true
	// Volatile files survive only the end of the program.
	Volatile Lifetime = false
)

// Write creates or replaces the file at path with the content data and the mode. If path is a symbolic link, the
// link is replaced.
func Write(path string, data []byte, mode fs.FileMode, lifetime Lifetime) error {
	return Fill(path, mode, lifetime, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// Create creates a synced file. If path already exists, it stays unchanged, and the error is fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, temporaryPrefix(path)+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, causeWithoutName(err))
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), path) // unlike a rename, a link never replaces a file
	}
	if err = errors.Join(causeWithoutName(err), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncFolder(folder, Synced)
}

// Fill is like Write, but fill writes the content. The file that fill receives is empty, open for reading and
// writing, and readable only by its owner; fill must not close it.
func Fill(path string, mode fs.FileMode, lifetime Lifetime, fill func(*os.File) error) error {
	if err := replaceFile(path, lifetime, func(file *os.File) error {
		if err := fill(file); err != nil {
			return err
		}
		return file.Chmod(mode)
	}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Rewrite replaces the content of an existing file, for programs that change users' files. It keeps the mode, and
// the owner if permitted. If path is a symbolic link, Rewrite changes the file that it leads to. The file is synced.
func Rewrite(path string, data []byte) error {
	if err := rewriteFile(path, data); err != nil {
		return fmt.Errorf("rewrite %s: %w", path, err)
	}
	return nil
}

func rewriteFile(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return replaceFile(path, Synced, func(file *os.File) error {
		if err := keepOwner(file, info); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if _, err := file.Write(data); err != nil {
			return err
		}
		return file.Chmod(info.Mode().Perm())
	})
}

func replaceFile(path string, lifetime Lifetime, fill func(*os.File) error) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, temporaryPrefix(path)+"*")
	if err != nil {
		return causeWithoutName(err)
	}
	err = fill(file)
	if err == nil && lifetime == Synced {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(causeWithoutName(err), os.Remove(file.Name()))
	}
	return syncFolder(folder, lifetime)
}

// causeWithoutName removes the temporary name from an error, because it is meaningless to the reader.
func causeWithoutName(err error) error {
	switch err := err.(type) {
	case *fs.PathError:
		if strings.HasPrefix(filepath.Base(err.Path), ".") {
			return err.Err
		}
	case *os.LinkError:
		return err.Err
	}
	return err
}

// temporaryPrefix returns the prefix of the temporary names of a file.
func temporaryPrefix(path string) string { return "." + filepath.Base(path) + "." }

// syncFolder syncs the names in a folder to the disk. Some file systems, for example network file systems, can't
// sync a folder; there the rename is as durable as the file system makes it.
func syncFolder(folder string, lifetime Lifetime) error {
	if lifetime == Volatile || runtime.GOOS == "windows" { // Windows can't sync folders
		return nil
	}
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// Sync syncs a file from another program, so that it survives a power failure.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder syncs a folder, so that new files in it survive a power failure.
func SyncFolder(folder string) error { return syncFolder(folder, Synced) }

// Rename renames a file within its folder and syncs the folder.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to), Synced)
}

// Link creates a symbolic link at path to target, or replaces an existing file or link. The link survives only the
// end of the program.
func Link(target, path string) error {
	// The name isn't random: callers must keep two programs from creating the same link at the same time, and a
	// leftover is replaced here.
	name := filepath.Join(filepath.Dir(path), temporaryPrefix(path)+"link")
	err := os.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Symlink(target, name)
	}
	if err == nil {
		err = os.Rename(name, path)
	}
	return err
}

// RemoveTemporary removes the temporary files of killed programs from a folder, for files with one of the names.
func RemoveTemporary(folder string, names ...string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		for _, name := range names {
			if strings.HasPrefix(entry.Name(), temporaryPrefix(name)) {
				err := os.Remove(filepath.Join(folder, entry.Name()))
				if !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}
