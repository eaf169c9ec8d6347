// Package disks manages the images of a VM's disks on the host: it creates them, enlarges them, and notices when
// they have grown.
package disks

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// metadataShare reserves a part of the file system's room for the list of an image's extents: an image written at
// random, 4 KiB at a time, needs a 220th on ext4.
const metadataShare = 128

// A volume that was created for one image has less room than the image has bytes, because of the needs of its
// file system: at most a fraction of it, and some MiB.
const (
	overheadShare  = 8
	leastOverhead  = 32 * vmspec.MiB
	leastUsedShare = 2
)

// isVolume reports whether a file system with this room may have been created for an image of this size.
func isVolume(room int64, size vmspec.Bytes) bool {
	missing := int64(size) - room
	return room >= int64(size/leastUsedShare) && missing <= int64(size/overheadShare+leastOverhead)
}

// leastGrowth is the minimum growth of an image, as a part of its size, if its file system lacks room for the
// full size, because the free space of a shared file system varies.
const leastGrowth = 64

// MakeImages creates the missing images of disks with a size, and enlarges images that are too small. It returns
// errors by the disks' places in vm.drives.
func MakeImages(drives []vmspec.Drive, log *slog.Logger) []vmspec.Fault {
	var faults []vmspec.Fault
	for i, d := range drives {
		if d.Size == 0 {
			continue
		}
		path := fmt.Sprintf("vm.drives[%d].size", i)
		have, err := fitImage(d, log)
		if errors.Is(err, fs.ErrNotExist) {
			continue // vmspec.MissingFiles reports the missing folder
		} else if err != nil {
			faults = append(faults, vmspec.Fault{Path: path, Message: err.Error()})
		} else if text := sizeDifference(d, have); text != "" {
			log.Warn("a disk is not as configured", "file", d.File, "err", path+": "+text)
		}
	}
	return faults
}

// sizeDifference describes how an image differs from its configured disk although no operation has failed; "" if it
// doesn't differ.
func sizeDifference(d vmspec.Drive, have int64) string {
	info, err := os.Lstat(d.File)
	if d.Size == 0 || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	size := vmspec.Bytes(have)
	if size > d.Size {
		return fmt.Sprintf("the disk has %s and cannot shrink to %s; set at least its current size", size, d.Size)
	}
	if !isVolume(have, d.Size) {
		return fmt.Sprintf("the disk has %s of %s: its file system has no room for more", size, d.Size)
	}
	image, err := readfile.Open(d.File)
	if err != nil {
		return "" // QEMU uses it
	}
	defer image.Close()
	if _, room, err := roomFor(image); err == nil && !isVolume(room, size) {
		return fmt.Sprintf("the file system has room for %s of the disk's %s; the VM is paused when that is full",
			vmspec.Bytes(room), size)
	}
	return ""
}

// fitImage makes the image of a disk as large as configured, and returns its size. New parts are holes. A
// dedicated volume, and an image that grows, limit the size to the room in the file system: the volume may grow
// later. An image never shrinks. fitImage skips devices, and links, because the image behind a link may belong to
// another VM.
func fitImage(d vmspec.Drive, log *slog.Logger) (size int64, err error) {
	info, err := os.Lstat(d.File)
	made := errors.Is(err, fs.ErrNotExist)
	switch {
	case made:
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, nil
	case info.Size() >= int64(d.Size):
		return info.Size(), nil
	}
	image, err := os.OpenFile(d.File, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, fmt.Errorf("create the image: %w", err)
	}
	defer image.Close()
	have, room, err := roomFor(image)
	if err != nil {
		return 0, fmt.Errorf("find out how large %s can be: %w", d.File, err)
	}
	size = min(int64(d.Size), room)
	switch {
	case have == 0 && size <= 0:
		return 0, fmt.Errorf("%s is empty, and its file system has no room for more", d.File)
	case have == 0 && !isVolume(room, d.Size):
		size = int64(d.Size)
	case size <= have || size < int64(d.Size) && size-have < have/leastGrowth:
		return have, nil
	}
	if err := image.Truncate(size); err != nil {
		return have, fmt.Errorf("make %s larger: %w", d.File, err)
	}
	if made { // data that the guest writes later must not be lost together with the name
		if err := atomicfile.SyncFolder(filepath.Dir(d.File)); err != nil {
			return size, fmt.Errorf("make %s durable: %w", d.File, err)
		}
	}
	attrs := []any{"file", d.File, "size", vmspec.Bytes(size).String(), "before", vmspec.Bytes(have).String()}
	if size < int64(d.Size) {
		attrs = append(attrs, "wanted", d.Size.String(), "because", "its file system has no room for more")
	}
	if made {
		log.Info("image made", attrs...)
	} else {
		log.Info("image grown", attrs...)
	}
	return size, nil
}

// roomFor returns the size of a file, and how large it can become, in whole MiB.
func roomFor(file *os.File) (have, room int64, err error) {
	var s unix.Stat_t
	var f unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(file.Fd()), &s), unix.Fstatfs(int(file.Fd()), &f)); err != nil {
		return 0, 0, err
	}
	return s.Size, roomIn(f, s.Blocks), nil
}

// roomIn returns how large a file with some blocks can become in a file system, in whole MiB.
func roomIn(f unix.Statfs_t, blocks int64) int64 {
	if f.Blocks == 0 { // the file system doesn't report it
		return 1 << 62
	}
	const sector = 512 // the unit of st_blocks
	room := blocks*sector + int64(f.Bavail)*f.Frsize
	return (room - room/metadataShare) &^ (int64(vmspec.MiB) - 1)
}

// LackOfRoom returns warnings about disks that will be created or enlarged with a larger size than the free space of
// their file systems. New images are sparse, so a start creates them in any case.
func LackOfRoom(drives []vmspec.Drive) (warnings []string) {
	for i, d := range drives {
		if d.Type != vmspec.DriveRaw || d.Format != "raw" || d.Size == 0 || d.File == "" {
			continue
		}
		if text := lackOfRoom(d); text != "" {
			warnings = append(warnings, fmt.Sprintf("vm.drives[%d].size: %s", i, text))
		}
	}
	return warnings
}

func lackOfRoom(d vmspec.Drive) string {
	var s unix.Stat_t
	var f unix.Statfs_t
	missing := unix.Lstat(d.File, &s) != nil
	if !missing && (s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size >= int64(d.Size)) {
		return ""
	}
	folder := filepath.Dir(d.File)
	for unix.Statfs(folder, &f) != nil { // the start creates the data directory
		if folder == filepath.Dir(folder) {
			return ""
		}
		folder = filepath.Dir(folder)
	}
	room := roomIn(f, s.Blocks)
	if room >= int64(d.Size) || isVolume(room, d.Size) {
		return ""
	}
	free := vmspec.Bytes(roomIn(f, 0))
	if missing || s.Size == 0 {
		return fmt.Sprintf("%s is more than the %s free in %s; the VM is paused when that is full", d.Size, free, folder)
	}
	return fmt.Sprintf("%s is more than the %s free in %s; the disk grows only as far as there is room", d.Size, free,
		folder)
}
