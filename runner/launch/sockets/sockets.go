// Package sockets keeps QEMU's listening sockets reachable when their paths are removed while the VM is running.
// For example, systemd removes the user's runtime directory when the user logs out.
//
// A descriptor of a socket's inode (O_PATH of open(2)) refers to the socket as long as the descriptor is open,
// even if all names of the socket are gone. The runner holds a descriptor of each socket, and QEMU inherits one
// of its monitor's socket. A symbolic link at the socket's former path leads to the descriptor through /proc.
//
// See docs/decisions/0173-removed-directories.md.
package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
)

// Open returns an O_PATH descriptor of a socket. The error is fs.ErrNotExist if the path does not exist.
func Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Kept is a set of sockets that stay reachable. It must be used by one goroutine only.
type Kept struct{ files map[string]*os.File }

// Keep opens the sockets at the given paths. It returns the paths that can't be opened.
func Keep(paths []string) (k *Kept, missing []string) {
	k = &Kept{files: map[string]*os.File{}}
	for _, path := range paths {
		file, err := Open(path)
		if err != nil {
			missing = append(missing, path)
			continue
		}
		k.files[path] = file
	}
	return k, missing
}

// Link creates a link at the path of each socket that is gone.
func (k *Kept) Link() error {
	var errs []error
	for path, file := range k.files {
		errs = append(errs, linkSocket(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd()), path))
	}
	return errors.Join(errs...)
}

// Close closes the descriptors of all sockets.
func (k *Kept) Close() {
	for _, file := range k.files {
		file.Close()
	}
}

// LinkInherited creates a link at the path of a socket that is gone, if the holder has inherited a descriptor of
// the socket. The link keeps working after this process has ended.
func LinkInherited(holder childprocess.ID, path string) error {
	if holder == (childprocess.ID{}) {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	to := holder.BoundSocket(filepath.Base(path))
	if to == "" {
		return nil
	}
	return linkSocket(to, path)
}

// linkSocket creates a link unless path exists. It replaces a dangling link.
func linkSocket(to, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create the socket %s again: %w", path, err)
	}
	if err := os.Symlink(to, path); err != nil {
		return fmt.Errorf("create the socket %s again: %w", path, err)
	}
	return nil
}
