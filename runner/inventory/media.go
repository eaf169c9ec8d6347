package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/runner/config"
)

// A Medium is a file in the folder for uploads: the image of a CD or of a disk.
//
// See docs/decisions/0204-uploads-on-one-computer.md.
type Medium struct {
	// Name is the name of the file, File its path.
	Name, File string
	// Size and Stored, the space that the file occupies, are in bytes.
	Size, Stored int64
	// Added is when the file was uploaded.
	Added time.Time
	// UsedBy are the VMs with a configuration that contains the file, sorted.
	UsedBy []string
	// Received is how much of an incomplete file was uploaded, and Size its full size. It is -1 for a complete file.
	Received int64
}

// MediaFolder returns the folder for uploads of the user, or of the computer if system is true. It need not exist.
func (inv *Inventory) MediaFolder(system bool) (string, error) {
	place, err := inv.Place(system)
	if err != nil {
		return "", err
	}
	return place.mediaFolder()
}

func (p *Place) mediaFolder() (string, error) {
	root, err := p.dataRoot()
	if err != nil {
		return "", err
	}
	return config.UploadsDirectory(filepath.Join(root, "x")), nil
}

// MakeMediaFolder creates the folder for uploads, so that the next VMs that start may read it.
func (inv *Inventory) MakeMediaFolder(system bool) error {
	place, err := inv.Place(system)
	if err == nil {
		_, err = place.makeMediaFolder()
	}
	return err
}

// makeMediaFolder creates the folder for uploads. VMs of the computer run as other users, who must be able to read it.
func (p *Place) makeMediaFolder() (string, error) {
	folder, err := p.mediaFolder()
	if err != nil {
		return "", err
	}
	mode := fs.FileMode(0o700)
	if p.System {
		mode = 0o755
	}
	if err := os.MkdirAll(folder, mode); err != nil {
		return "", fmt.Errorf("cannot create the folder for uploads: %w", err)
	}
	return folder, nil
}

// mediumMode is the mode of an upload.
func (p *Place) mediumMode() fs.FileMode {
	if p.System {
		return 0o644
	}
	return 0o600
}

// MediaFree returns the free space for uploads in bytes; 0 if it is unknown.
func (inv *Inventory) MediaFree(system bool) int64 {
	folder, err := inv.MediaFolder(system)
	if err != nil {
		return 0
	}
	for ; ; folder = filepath.Dir(folder) { // the folder need not exist
		free, err := freeSpace(folder)
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return free
		}
	}
}

// freeSpace returns the space in a folder that this process can use, in bytes.
func freeSpace(folder string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// Media returns the uploads of the user, or of the computer if system is true, sorted by name: complete files, and
// incomplete uploads that can be resumed.
func (inv *Inventory) Media(system bool) ([]Medium, error) {
	folder, err := inv.MediaFolder(system)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("cannot list the uploads: %w", err)
	}
	var list []Medium
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		m := Medium{
			Name: e.Name(), File: filepath.Join(folder, e.Name()), Size: info.Size(), Added: info.ModTime(),
			Received: -1,
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			const sector = 512 // the unit of st_blocks
			m.Stored = s.Blocks * sector
		}
		if strings.HasPrefix(e.Name(), ".") {
			part, is := parsePart(e.Name())
			if !is {
				continue
			}
			m.Name, m.Received, m.Size = part.name, info.Size(), part.size
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Medium) int { return strings.Compare(a.Name+a.File, b.Name+b.File) })
	return list, nil
}

// MediaWithUse returns the uploads with the VMs that use them.
func (inv *Inventory) MediaWithUse(ctx context.Context, system bool) ([]Medium, error) {
	list, err := inv.Media(system)
	if err != nil || len(list) == 0 {
		return list, err
	}
	users, err := inv.fileUsers(ctx)
	for i := range list {
		list[i].UsedBy = users[list[i].File]
	}
	return list, err
}

// fileUsers returns the names of the VMs that use files, sorted, by path.
func (inv *Inventory) fileUsers(ctx context.Context) (map[string][]string, error) {
	vms, err := inv.List(ctx)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for i := range vms {
		vm := &vms[i]
		if vm.Config == nil {
			continue
		}
		for _, d := range vm.Config.VM.WithDefaults().Within(filepath.Dir(vm.File)).Drives {
			for _, file := range []string{d.File, d.Source} {
				if filepath.IsAbs(file) && !slices.Contains(users[file], vm.Name) {
					users[file] = append(users[file], vm.Name)
				}
			}
		}
	}
	return users, nil
}

// RemoveMedium removes an upload, also an incomplete one. The error is ErrUnknown if there is no such upload. It
// refuses to remove a file that a VM uses.
func (inv *Inventory) RemoveMedium(ctx context.Context, system bool, name string) error {
	list, err := inv.MediaWithUse(ctx, system)
	if err != nil {
		return err
	}
	found := false
	for _, m := range list {
		if m.Name != name {
			continue
		}
		if len(m.UsedBy) > 0 {
			return fmt.Errorf("cannot remove %s: %s uses it; change its drives first", name,
				strings.Join(m.UsedBy, ", "))
		}
		if err := os.Remove(m.File); err != nil {
			return fmt.Errorf("cannot remove %s: %w", name, err)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("cannot remove %s: %w", name, ErrUnknown)
	}
	return nil
}

// checkMediumName refuses names that aren't safe for a file. Spaces and letters of other alphabets are permitted.
func checkMediumName(name string) error {
	const longest = 200 // bytes; a temporary name is longer, and file systems permit 255
	unsafe := strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune("\x7f/\\,", r) })
	if name == "" || strings.HasPrefix(name, ".") || unsafe || len(name) > longest {
		return fmt.Errorf("%q is not a valid file name; use letters, digits, ., _ and -, such as debian-13.iso", name)
	}
	return nil
}
