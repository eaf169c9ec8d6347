// Package sockets keeps the sockets on which QEMU listens reachable when they are removed under a
// running VM: at a log-out, for example, systemd removes the user's runtime directory.
//
// A descriptor of a socket's place in the file system (O_PATH of open(2)) leads to the socket as
// long as it is open, whatever becomes of its names. The runner has one of each socket, and QEMU
// inherits one of its monitor's. A link in the place of the socket leads there by /proc.
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

	"vmop/process"
)

// Open returns a descriptor of the place of a socket. The error is fs.ErrNotExist if there is none.
func Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Kept are sockets that stay reachable. They belong to one goroutine.
type Kept struct{ files map[string]*os.File }

// Keep keeps the sockets at some paths. Those that are not there are returned.
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

// Link makes links in the places of sockets that are gone.
func (k *Kept) Link() error {
	var errs []error
	for path, file := range k.files {
		errs = append(errs, link(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd()), path))
	}
	return errors.Join(errs...)
}

// Close gives the sockets up.
func (k *Kept) Close() {
	for _, file := range k.files {
		file.Close()
	}
}

// LinkInherited makes a link in the place of a socket that is gone, if a process has inherited a
// descriptor of it. It outlives this process.
func LinkInherited(holder process.ID, path string) error {
	if holder == (process.ID{}) {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	to := holder.BoundSocket(filepath.Base(path))
	if to == "" {
		return nil
	}
	return link(to, path)
}

// link makes a link where nothing is, or a link that leads nowhere.
func link(to, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the socket %s again: %w", path, err)
	}
	if err := os.Symlink(to, path); err != nil {
		return fmt.Errorf("make the socket %s again: %w", path, err)
	}
	return nil
}
