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

// What the kernel is asked to report; see inotify(7). A folder does not report
// writes to its files, only their end: the image of a disk may be among them, and
// each write of the guest would wake the runner.
const (
	// nameEvents: a name of a folder is there, gone or stands for something else.
	nameEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR
	// entryEvents: that, or what the name stands for was written or given
	// other rights.
	entryEvents = nameEvents | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB
	// selfEvents: the folder itself is gone, elsewhere or has other rights.
	selfEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	// fileEvents: the file was written, by whatever name, or has other rights.
	fileEvents = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_DONT_FOLLOW
	// contentEvents change no path, so what is watched stays.
	contentEvents = unix.IN_MODIFY | unix.IN_CLOSE_WRITE
)

// everyName stands for all names of a folder; no name has a slash.
const everyName = "/"

// mostLinks is how many symbolic links the kernel follows in a path.
const mostLinks = 40

// mostTries bounds how often a path that changes is followed from its
// beginning; the changes make events, which have it followed again.
const mostTries = 10

// inotify watches all that paths lead through: folders, symbolic links, files.
type inotify struct {
	file    *os.File
	targets []string
	// names are those of a folder that matter, by the watch of the folder. A
	// watch of a file has none.
	names  map[int32][]string
	buffer []byte
	moved  bool // paths may lead elsewhere than where they are watched
}

// listen returns a watcher that waits for the kernel.
func listen(ctx context.Context, paths []string) (watcher, error) {
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

// wait implements watcher. What a path leads to now is looked at after the change of the
// path was reported, and then counts as another change: a file system that doesn't
// answer must not keep the report back.
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
		matters, moved := w.judge(w.buffer[:n])
		w.moved = moved
		if matters || moved {
			return true, nil
		}
	}
}

// judge reads events. It reports whether one of them matters, and whether paths
// may lead elsewhere now.
func (w *inotify) judge(events []byte) (matters, moved bool) {
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

// watchAll follows all paths and watches what they lead through now, and no
// longer what they led through before.
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
			w.forget(watch)
		}
	}
	return nil
}

// watchPath follows one path from its beginning. It returns false if the path
// changed on the way.
//
// What a name stands for is looked at after the watch that reports a change of it
// is there. A folder itself reports that it is moved or deleted; for all others, and
// for what is missing, the folder that they are in does.
func (w *inotify) watchPath(target string) (done bool, err error) {
	dir, rest := "/", partsOf(target)
	for links := 0; len(rest) > 0; {
		name, last := rest[0], len(rest) == 1 && !isFolder(target)
		path := filepath.Join(dir, name) // dir has no links: .. leads up
		rest = rest[1:]
		if info, err := os.Lstat(path); err == nil && info.IsDir() && !last {
			if done, err := w.add(path, selfEvents, ""); !done || err != nil {
				return false, err
			}
			dir = path
			continue
		}
		events := uint32(nameEvents)
		if last {
			events = entryEvents
		}
		if done, err := w.add(dir, events, name); !done || err != nil {
			return false, err
		}
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return true, nil // it is not there, or can't be seen
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
		return w.add(dir, entryEvents, everyName)
	}
	return true, nil
}

// partsOf returns the parts of a path.
func partsOf(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." })
}

// add watches a folder, and a name in it if there is one. It returns false if
// the folder is gone.
func (w *inotify) add(dir string, events uint32, name string) (done bool, err error) {
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

// addFile watches a file. What can't be watched, for want of the right to read
// it, is reported by its folder when that changes.
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

// addWatch adds events to the watch of what a path leads to. It is the same
// watch by whatever path.
func (w *inotify) addWatch(path string, events uint32) (watch int32, err error) {
	err = w.control(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, path, events|unix.IN_MASK_ADD)
		watch = int32(n)
		return err
	})
	return watch, err
}

// forget removes a watch. If it is gone already, because what it watched is,
// there is nothing to do.
func (w *inotify) forget(watch int32) {
	_ = w.control(func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(watch))
		return err
	})
}

// control calls do with the descriptor, which is open meanwhile.
func (w *inotify) control(do func(fd int) error) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	if other := conn.Control(func(fd uintptr) { err = do(int(fd)) }); other != nil {
		return other
	}
	return err
}

// remoteKind returns the kind of the file system that holds a folder if others
// can change it unseen, else "".
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
