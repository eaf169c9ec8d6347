package filewatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Events to request from the kernel; see inotify(7). A folder reports only the end of writes to its files, not each
// write: a disk image may be among them, and each write of the guest would wake the runner.
const (
	// nameEvents: a name in a folder was created, removed or replaced.
	nameEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR
	// entryEvents: nameEvents, or the file behind the name was written or its permissions changed.
	entryEvents = nameEvents | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB
	// selfEvents: the folder itself was removed or moved, or its permissions changed.
	selfEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	// fileEvents: the file was written under any name, or its permissions changed.
	fileEvents = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DONT_FOLLOW
	// contentEvents don't change a path, so the watches stay.
	contentEvents = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
)

// everyName stands for all names in a folder; names never contain a slash.
const everyName = "/"

// mostLinks is the number of symbolic links that the kernel follows in a path.
const mostLinks = 40

// mostTries limits how often a changing path is followed from its beginning. Each change also causes an event, so
// the path is followed again later.
const mostTries = 10

// inotify watches everything that paths lead through: folders, symbolic links, files.
type inotify struct {
	file    *os.File
	targets []string
	// names maps the watch of a folder to the relevant names in it. The watch of a file has no names.
	names  map[int32][]string
	buffer []byte
	moved  bool // paths may lead elsewhere by now
}

// listenToKernel returns a watcher that receives events from the kernel.
func listenToKernel(ctx context.Context, paths []string) (watcher, error) {
	if kind := remoteKind(filepath.Dir(paths[0])); kind != "" {
		return nil, fmt.Errorf("watch files: a file system of kind %s does not report changes made elsewhere", kind)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch files: open inotify: %w", err)
	}
	w := &inotify{file: os.NewFile(uintptr(fd), "inotify"), targets: paths, buffer: make([]byte, 4096)}
	if err := w.watchAll(); err != nil {
		w.close()
		return nil, err
	}
	context.AfterFunc(ctx, w.close) // ends a wait
	return w, nil
}

// close implements watcher.
func (w *inotify) close() { _ = w.file.Close() } // nothing is written

// wait implements watcher. After a path has changed, wait first reports that change. It resolves the new path on the
// next call and reports that as another change, because a file system that doesn't answer must not delay the first
// report.
func (w *inotify) wait(_ context.Context, deadline time.Time) (bool, error) {
	if w.moved {
		w.moved = false
		return true, w.watchAll()
	}
	if err := w.file.SetReadDeadline(deadline); err != nil {
		return false, fmt.Errorf("watch files: %w", err)
	}
	for {
		n, err := w.file.Read(w.buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("watch files: %w", err)
		}
		matters, moved := w.judgeEvents(w.buffer[:n])
		w.moved = moved
		if matters || moved {
			return true, nil
		}
	}
}

// judgeEvents parses events. It reports whether one of them is relevant, and whether paths may lead elsewhere now.
func (w *inotify) judgeEvents(events []byte) (matters, moved bool) {
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		length := int(binary.NativeEndian.Uint32(events[12:]))
		end := min(unix.SizeofInotifyEvent+length, len(events))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		events = events[end:]
		names, known := w.names[watch]
		lost := mask&unix.IN_Q_OVERFLOW != 0
		onPath := known && (name == "" || slices.Contains(names, name))
		if lost || onPath || slices.Contains(names, everyName) {
			matters = true
		}
		moved = moved || lost || onPath && mask&^contentEvents != 0
	}
	return matters, moved
}

// watchAll follows all paths, watches everything that they currently lead through, and removes the other watches.
func (w *inotify) watchAll() error {
	before := w.names
	w.names = map[int32][]string{}
	for _, target := range w.targets {
		for range mostTries {
			done, err := w.watchPath(target)
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
	}
	for watch := range before {
		if _, still := w.names[watch]; !still {
			w.forgetWatch(watch)
		}
	}
	return nil
}

// watchPath follows one path from its beginning. It returns false if the path changed on the way.
//
// It adds the watch that reports changes of a name before it resolves the name. A folder itself reports that it was
// moved or deleted. For everything else, including missing files, the containing folder reports changes.
func (w *inotify) watchPath(target string) (done bool, err error) {
	dir, rest := "/", partsOf(target)
	for links := 0; len(rest) > 0; {
		name, last := rest[0], len(rest) == 1 && !isFolder(target)
		path := filepath.Join(dir, name) // dir contains no links, so .. leads up
		rest = rest[1:]
		if info, err := os.Lstat(path); err == nil && info.IsDir() && !last {
			if done, err := w.watchFolder(path, selfEvents, ""); !done || err != nil {
				return false, err
			}
			dir = path
			continue
		}
		events := uint32(nameEvents)
		if last {
			events = entryEvents
		}
		if done, err := w.watchFolder(dir, events, name); !done || err != nil {
			return false, err
		}
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return true, nil // it doesn't exist, or can't be seen
		case info.IsDir():
			return last, nil
		case info.Mode()&os.ModeSymlink == 0:
			return !last || w.addFile(path), nil
		}
		if links++; links > mostLinks {
			return true, nil
		}
		leads, err := os.Readlink(path)
		if err != nil {
			return false, nil
		}
		if filepath.IsAbs(leads) {
			dir = "/"
		}
		rest = append(partsOf(leads), rest...)
	}
	if isFolder(target) {
		return w.watchFolder(dir, entryEvents, everyName)
	}
	return true, nil
}

// partsOf returns the parts of a path.
func partsOf(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." })
}

// watchFolder watches a folder and, unless name is empty, a name in it. It returns false if the folder no longer
// exists.
func (w *inotify) watchFolder(dir string, events uint32, name string) (done bool, err error) {
	watch, err := w.addWatch(dir, events)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("watch the folder %s: %w", dir, err)
	}
	names := w.names[watch]
	if name != "" && !slices.Contains(names, name) {
		names = append(names, name)
	}
	w.names[watch] = names
	return true, nil
}

// addFile watches a file. If the program may not read the file, the folder reports when that changes.
func (w *inotify) addFile(path string) bool {
	watch, err := w.addWatch(path, fileEvents)
	if errors.Is(err, unix.ENOENT) {
		return false
	}
	if err == nil {
		w.names[watch] = nil
	}
	return true
}

// addWatch adds events to the watch of the file or folder that a path leads to. All paths to it share one watch.
func (w *inotify) addWatch(path string, events uint32) (watch int32, err error) {
	err = w.controlDescriptor(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, path, events|unix.IN_MASK_ADD)
		watch = int32(n)
		return err
	})
	return watch, err
}

// forgetWatch removes a watch. It ignores errors, because the watch may have ended with its file.
func (w *inotify) forgetWatch(watch int32) {
	_ = w.controlDescriptor(func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(watch))
		return err
	})
}

// controlDescriptor calls do with the descriptor, and keeps it open during the call.
func (w *inotify) controlDescriptor(do func(fd int) error) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	if other := conn.Control(func(fd uintptr) { err = do(int(fd)) }); other != nil {
		return other
	}
	return err
}

// remoteKind returns the kind of the file system of a folder if others can change it unseen, otherwise "".
func remoteKind(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return ""
	}
	switch uint32(fs.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.V9FS_MAGIC:
		return "9P"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "AFS"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	}
	return ""
}
