// Package durable writes files so that a file is there as a whole or not at all: a
// concurrent reader sees either the old or the new content, and a full disk or a
// program that is killed takes nothing away.
//
// A file is written under a temporary name in its folder, ".NAME.*", and renamed.
// Whether that also survives a power failure is said at each call: what must be there
// when the computer comes back is [Synced], which costs some milliseconds; what is
// worth nothing then, in a runtime directory or a cache, is [Volatile]. A start of a
// VM writes into its runtime directory several times, and waits for none.
package durable

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

// A Lifetime says what a written file survives.
type Lifetime bool

const (
	// Synced files survive a power failure: when the call returns, the content and
	// the name are on the disk.
	Synced Lifetime = true
	// Volatile files survive the end of the program only.
	Volatile Lifetime = false
)

// Write gives the file at path the content data and the mode, whether there is one
// already or not. If path is a symbolic link, the link is replaced.
func Write(path string, data []byte, mode fs.FileMode, lifetime Lifetime) error {
	return Fill(path, mode, lifetime, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// Create makes a file that is synced. If there is anything at path it stays as it is, and
// the error is fs.ErrExist.
func Create(path string, data []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, temporary(path)+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), path) // unlike a rename it replaces nothing
	}
	if err = errors.Join(cause(err), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncFolder(folder, Synced)
}

// Fill is Write with what fill writes. The file that fill gets is empty, open for
// reading and writing, and readable by its owner only; fill doesn't close it.
func Fill(path string, mode fs.FileMode, lifetime Lifetime, fill func(*os.File) error) error {
	if err := replace(path, lifetime, func(file *os.File) error {
		if err := fill(file); err != nil {
			return err
		}
		return file.Chmod(mode)
	}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Rewrite gives a file that is there another content, for programs that change files
// of people. The mode stays, and the owner where that is permitted. A link stays one;
// the file it leads to is rewritten. The file is synced.
func Rewrite(path string, data []byte) error {
	if err := rewrite(path, data); err != nil {
		return fmt.Errorf("rewrite %s: %w", path, err)
	}
	return nil
}

func rewrite(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return replace(path, Synced, func(file *os.File) error {
		if err := keepOwner(file, info); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if _, err := file.Write(data); err != nil {
			return err
		}
		return file.Chmod(info.Mode().Perm())
	})
}

func replace(path string, lifetime Lifetime, fill func(*os.File) error) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, temporary(path)+"*")
	if err != nil {
		return cause(err)
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
		return errors.Join(cause(err), os.Remove(file.Name()))
	}
	return syncFolder(folder, lifetime)
}

// cause leaves the temporary name out of an error: it means nothing to its reader.
func cause(err error) error {
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

// temporary returns how the temporary names of a file begin.
func temporary(path string) string { return "." + filepath.Base(path) + "." }

// syncFolder puts the names in a folder on the disk. Some file systems, of networks
// for example, can't do that for a folder alone; there the rename is as durable as
// they make it.
func syncFolder(folder string, lifetime Lifetime) error {
	if lifetime == Volatile || runtime.GOOS == "windows" { // which has no such thing
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

// Sync makes sure that a file that another program has written survives a power failure.
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

// SyncFolder makes sure that a file that was made in a folder is found there after
// a power cut.
func SyncFolder(folder string) error { return syncFolder(folder, Synced) }

// Rename gives a file another name in the same folder, durably.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to), Synced)
}

// Link makes path a symbolic link to target, whether there is a file or a link
// already or not. It survives the end of the program only.
func Link(target, path string) error {
	// The name is no random one: two programs that make the same link at once are
	// kept apart by their callers, and a leftover is replaced here.
	name := filepath.Join(filepath.Dir(path), temporary(path)+"link")
	err := os.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Symlink(target, name)
	}
	if err == nil {
		err = os.Rename(name, path)
	}
	return err
}

// RemoveTemporary removes what programs that were killed have half written in a
// folder: files that were to get one of the names.
func RemoveTemporary(folder string, names ...string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		for _, name := range names {
			if strings.HasPrefix(entry.Name(), temporary(name)) {
				err := os.Remove(filepath.Join(folder, entry.Name()))
				if !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}
