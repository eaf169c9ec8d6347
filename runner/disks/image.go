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
	"vmop/vmspec"
)

// Of what an image and its file system have together, a part is left for the list of
// what is where: an image written at random, 4 KiB at a time, needs a 220th on ext4.
const metadataShare = 128

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
		if _, err := fitImage(d, log); err != nil {
			faults = append(faults, vmspec.Fault{Path: fmt.Sprintf("vm.drives[%d].size", i), Message: err.Error()})
		}
	}
	return faults
}

// fitImage makes the image of a disk as large as the disk is to be, or as its file
// system has room for, and returns its size. There are holes in what is new. An image
// never becomes smaller. What is no file is left alone, and so is a link: the image
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
