package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
)

// A folderMove gives a folder another name in its parent folder. At every moment the folder is found under its old
// name: first by the folder itself, then by a link to its new name.
type folderMove struct {
	from, to string
	real     string // the folder that the link from leads to; "" if from is the folder
}

// realPaths returns the folder with the old name, and its new path.
func (m folderMove) realPaths() (from, to string) {
	if m.real == "" {
		return m.from, m.to
	}
	return m.real, filepath.Join(filepath.Dir(m.real), filepath.Base(m.to))
}

// hasBegun reports whether an interrupted move has left a link between the names.
func (m folderMove) hasBegun() bool {
	from, to := m.realPaths()
	return leadsTo(from, to) || leadsTo(to, to)
}

// leadsTo reports whether a path is a link that a folderMove has made.
func leadsTo(link, to string) bool {
	target, err := os.Readlink(link)
	return err == nil && target == filepath.Base(to)
}

// moveFolder moves the folder, and leaves a link with its old name.
func (m folderMove) moveFolder() error {
	from, to := m.realPaths()
	if leadsTo(from, to) {
		return nil // by an earlier, interrupted call
	}
	if m.real != "" {
		target, err := os.Readlink(m.from)
		if err == nil {
			err = os.Symlink(filepath.Join(filepath.Dir(target), filepath.Base(to)), m.to)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// The link leads to itself until the folder takes its place.
	if err := os.Symlink(filepath.Base(to), to); err != nil && !leadsTo(to, to) {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err != nil {
		err = fmt.Errorf("the file system can't exchange the names %s and %s: %w", from, to, err)
		return errors.Join(err, os.Remove(to))
	}
	return errors.Join(atomicfile.SyncFolder(filepath.Dir(to)), atomicfile.SyncFolder(filepath.Dir(m.to)))
}

// moveBack undoes moveFolder.
func (m folderMove) moveBack() error {
	from, to := m.realPaths()
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err == nil {
		err = os.Remove(to)
	}
	if m.real != "" {
		err = errors.Join(err, os.Remove(m.to))
	}
	return err
}

// removeLinks removes the links with the old name.
func (m folderMove) removeLinks() error {
	from, _ := m.realPaths()
	err := os.Remove(from)
	if m.real != "" {
		err = errors.Join(err, os.Remove(m.from))
	}
	return errors.Join(err, atomicfile.SyncFolder(filepath.Dir(from)))
}
