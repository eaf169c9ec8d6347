package confine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelFiles is part of every root. It is mounted as a whole, because /proc/self leads to another folder for each
// process.
const kernelFiles = "/proc"

// ownRoot gives the calling thread a root folder with only the paths in it, and an IPC namespace. After an error the
// thread still sees its old root.
func ownRoot(paths []Path) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// Later mounts here stay here; mounts that are removed outside are also removed here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mounts: %w", err)
	}
	proc, err := place{path: kernelFiles}.cloneMount()
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	root, err := emptyRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	places, links := placesOf(paths)
	// The root can be filled only where it is mounted. There it hides /proc, which has already been copied.
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, kernelFiles, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount a root folder: %w", err)
	}
	if err = fillRoot(root, proc, places, links); err == nil {
		err = enterRoot(root)
	}
	if err != nil {
		err = errors.Join(err, unix.Unmount(kernelFiles, unix.MNT_DETACH))
	}
	return err
}

// place is a path without symbolic links.
type place struct {
	path             string
	folder, writable bool
}

// cloneMount returns a detached mount of the place and everything below it.
func (p place) cloneMount() (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, p.path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("copy the mount of %s: %w", p.path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !p.writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("limit the mount of %s: %w", p.path, err)
	}
	return fd, nil
}

// placesOf returns the places to mount, outer folders first, and the symbolic links that lead there, by path. It
// leaves out paths that don't exist, and paths inside a folder with the same access.
func placesOf(paths []Path) ([]place, map[string]string) {
	found, links, plain := map[string]place{}, map[string]string{}, map[string]bool{}
	for _, p := range paths {
		if p.Name == kernelFiles || strings.HasPrefix(p.Name, kernelFiles+"/") {
			continue
		}
		real, err := followLinks(p.Name, links, plain)
		if err != nil {
			continue
		}
		info, err := os.Lstat(real)
		if err != nil {
			continue
		}
		found[real] = place{real, info.IsDir(), found[real].writable || p.Access&(Write|Sockets) != 0}
	}
	list := slices.SortedFunc(maps.Values(found), func(a, b place) int { return strings.Compare(a.path, b.path) })
	return slices.DeleteFunc(list, func(p place) bool {
		for at := path.Dir(p.path); at != "/"; at = path.Dir(at) {
			if outer, ok := found[at]; ok {
				return outer.writable || !p.writable
			}
		}
		return false
	}), links
}

// mostLinks is the maximum number of symbolic links in a path, the same as the kernel's.
const mostLinks = 40

// followLinks returns where a path leads. It records the links on the way in links, and in plain the paths that aren't
// links.
func followLinks(name string, links map[string]string, plain map[string]bool) (string, error) {
	at, rest := "/", strings.Split(strings.Trim(name, "/"), "/")
	for n := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if plain[next] {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, unix.EINVAL):
			plain[next], at = true, next
			continue
		case err != nil:
			return "", err
		}
		if n++; n > mostLinks {
			return "", &os.PathError{Op: "follow", Path: name, Err: unix.ELOOP}
		}
		links[next] = target
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return at, nil
}

// emptyRoot returns an empty, detached file system.
func emptyRoot() (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := errors.Join(
		unix.FsconfigSetString(fs, "mode", "0755"), unix.FsconfigSetString(fs, "size", "1m"), unix.FsconfigCreate(fs),
	); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return root, os.NewSyscallError("fsmount", err)
}

// fillRoot mounts the places and a copy of the kernel's files, and creates the links and folders that lead there.
func fillRoot(root, proc int, places []place, links map[string]string) error {
	if err := mountTree(root, proc, place{path: kernelFiles, folder: true}); err != nil {
		return err
	}
	for _, p := range places {
		tree, err := p.cloneMount()
		if err != nil {
			return err
		}
		err = mountTree(root, tree, p)
		if err := errors.Join(err, unix.Close(tree)); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := makePlace(root, path.Dir(name)[1:], true); err != nil {
			return fmt.Errorf("make a place for %s: %w", name, err)
		}
		// A link inside a mounted folder already exists.
		if err := unix.Symlinkat(target, root, name[1:]); err != nil && !isTaken(err) {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return unix.MountSetattr(root, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// mountTree mounts a tree at its place below the root.
func mountTree(root, tree int, p place) error {
	at := p.path[1:]
	if err := makePlace(root, at, p.folder); err != nil {
		return fmt.Errorf("make a place for %s: %w", p.path, err)
	}
	if err := unix.MoveMount(tree, "", root, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", p.path, err)
	}
	return nil
}

// isTaken reports whether a name can't be created because it exists, or because its folder is read-only and therefore
// already contains it.
func isTaken(err error) bool { return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EROFS) }

// makePlace creates a folder or an empty file, and any missing folders above it.
func makePlace(root int, name string, folder bool) error {
	if name == "" || name == "." {
		return nil
	}
	try := func() error {
		if folder {
			return unix.Mkdirat(root, name, 0o755)
		}
		return unix.Mknodat(root, name, unix.S_IFREG|0o644, 0)
	}
	err := try()
	if errors.Is(err, unix.ENOENT) {
		if err = makePlace(root, path.Dir(name), true); err == nil {
			err = try()
		}
	}
	if isTaken(err) {
		return nil
	}
	return err
}

// enterRoot makes a mounted folder the root and unmounts the old root.
func enterRoot(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	// The old root is on top of the new root.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}
