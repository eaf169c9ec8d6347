// Package disks looks after the images of a VM's disks on the host: it makes them,
// lets them grow, and notices when they have grown.
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

	"vmop/durable"
	"vmop/regular"
	"vmop/vmspec"
)

// Of what an image and its file system have together, a part is left for the list of
// what is where: an image written at random, 4 KiB at a time, needs a 220th on ext4.
const metadataShare = 128

// A volume that was made for one image has less room than it has bytes, by what its file
// system needs: no more than a part of it, and some MiB.
const (
	overheadShare  = 8
	leastOverhead  = 32 * vmspec.MiB
	leastUsedShare = 2
)

// isVolume reports whether a file system that has room for so much may have been made for
// an image of a size.
func isVolume(room int64, size vmspec.Bytes) bool {
	missing := int64(size) - room
	return room >= int64(size/leastUsedShare) && missing <= int64(size/overheadShare+leastOverhead)
}

// leastGrowth is the part of its size by which an image must become larger where its
// file system has no room for all: the free space of one that is shared goes up and
// down.
const leastGrowth = 64

// MakeImages makes the images that disks with a size don't have, and lets those grow
// that are smaller. It returns why it can't, by the disks' places in vm.drives.
func MakeImages(drives []vmspec.Drive, log *slog.Logger) []vmspec.Fault {
	var faults []vmspec.Fault
	for i, d := range drives {
		if d.Size == 0 {
			continue
		}
		path := fmt.Sprintf("vm.drives[%d].size", i)
		have, err := fitImage(d, log)
		if errors.Is(err, fs.ErrNotExist) {
			continue // vmspec.MissingFiles names the folder that there is not
		} else if err != nil {
			faults = append(faults, vmspec.Fault{Path: path, Message: err.Error()})
		} else if text := difference(d, have); text != "" {
			log.Warn("a disk is not as configured", "file", d.File, "err", path+": "+text)
		}
	}
	return faults
}

// difference says what of an image is not as its disk is to be, though nothing has failed;
// "" if all is.
func difference(d vmspec.Drive, have int64) string {
	info, err := os.Lstat(d.File)
	if d.Size == 0 || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	size := vmspec.Bytes(have)
	if size > d.Size {
		return fmt.Sprintf("the disk has %s, and no disk is made smaller than it is; want at least that, not %s", size, d.Size)
	}
	if !isVolume(have, d.Size) {
		return fmt.Sprintf("the disk has %s of %s: its file system has no room for more", size, d.Size)
	}
	image, err := regular.Open(d.File)
	if err != nil {
		return "" // QEMU has it
	}
	defer image.Close()
	if _, room, err := roomFor(image); err == nil && !isVolume(room, size) {
		return fmt.Sprintf("the file system has room for %s of the disk's %s; the VM is paused when that is full",
			vmspec.Bytes(room), size)
	}
	return ""
}

// fitImage makes the image of a disk as large as the disk is to be, and returns its size.
// There are holes in what is new. On a volume of its own, and when it grows, an image
// becomes only as large as its file system has room for: the volume may grow later. An
// image never becomes smaller. What is no file is left alone, and so is a link: the image
// it leads to may belong to another VM.
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
		return 0, fmt.Errorf("make the image: %w", err)
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
	if made { // what the guest writes to it later must not be lost with its name
		if err := durable.SyncFolder(filepath.Dir(d.File)); err != nil {
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
	if f.Blocks == 0 { // it doesn't say
		return s.Size, 1 << 62, nil
	}
	const sector = 512 // st_blocks counts these
	room = s.Blocks*sector + int64(f.Bavail)*f.Frsize
	return s.Size, (room - room/metadataShare) &^ (int64(vmspec.MiB) - 1), nil
}
