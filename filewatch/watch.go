// Package filewatch tells which files of folders have changed, for verbs that work
// again when somebody saves.
//
// See docs/decisions/0019-inotify.md.
package filewatch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a folder must be quiet: editors save in several steps, and
// several files at once.
const settle = 30 * time.Millisecond

// A Watch sees the files of folders; not those of their subfolders. It is for one
// goroutine.
type Watch struct {
	dirs    []string
	file    *os.File // inotify
	before  map[string]state
	changes chan error // one that is not seen yet
}

// state is what of a file changes with its content.
type state struct {
	inode    uint64
	size     int64
	modified int64 // ns
}

// New begins to watch folders, which need not be there yet if a folder around
// them is watched.
func New(dirs ...string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("watch files: inotify_init1", err)
	}
	w := &Watch{dirs: dirs, file: os.NewFile(uintptr(fd), "inotify"), changes: make(chan error, 1)}
	if err := w.add(); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	w.before = w.look()
	go w.read()
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() error { return w.file.Close() }

// events are what the kernel tells of; see inotify(7).
const events = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// add watches the folders that are there; one that is watched already stays so.
func (w *Watch) add() error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch files: %w", err)
	}
	for _, dir := range w.dirs {
		controlErr := conn.Control(func(fd uintptr) { _, err = unix.InotifyAddWatch(int(fd), dir, events) })
		if err = errors.Join(controlErr, err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch the folder %s: %w", dir, err)
		}
	}
	return nil
}

// read notes that something happened until the watch is closed.
func (w *Watch) read() {
	buffer := make([]byte, 64<<10)
	for {
		_, err := w.file.Read(buffer)
		select {
		case w.changes <- err:
		default: // it will be looked at
		}
		if err != nil {
			return
		}
	}
}

// look returns the files that are there.
func (w *Watch) look() map[string]state {
	found := map[string]state{}
	for _, dir := range w.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is not there
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			var stat unix.Stat_t
			if unix.Stat(path, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG {
				found[path] = state{stat.Ino, stat.Size, stat.Mtim.Nano()}
			}
		}
	}
	return found
}

// Wait returns the paths of the files that have changed, are new or are gone
// since the last call, or since the watch began; at least one, sorted.
func (w *Watch) Wait(ctx context.Context) ([]string, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-w.changes:
			if err != nil {
				return nil, fmt.Errorf("watch files: %w", err)
			}
		}
		if err := w.quiet(ctx); err != nil {
			return nil, err
		}
		if err := w.add(); err != nil {
			return nil, err
		}
		now := w.look()
		changed := differences(w.before, now)
		if w.before = now; len(changed) > 0 {
			return changed, nil
		}
	}
}

// quiet waits until nothing has happened for a moment.
func (w *Watch) quiet(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.changes:
			if err != nil {
				return fmt.Errorf("watch files: %w", err)
			}
		case <-time.After(settle):
			return nil
		}
	}
}

func differences(before, now map[string]state) []string {
	changed := map[string]bool{}
	for path, state := range now {
		if old, known := before[path]; !known || old != state {
			changed[path] = true
		}
	}
	for path := range before {
		if _, there := now[path]; !there {
			changed[path] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}
