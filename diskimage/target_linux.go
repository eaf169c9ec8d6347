package diskimage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"vmop/durable"
)

// Target is where an image goes, as the raw bytes of a disk.
type Target struct {
	// Path is a file, whose folder exists, or a block device. A link is followed to a device
	// only.
	Path string
	// Size is how many bytes the disk is to have; 0 for those of the image, or of the device.
	// An image that is larger is an error.
	Size int64
	// Mode is that of a new file; 0 for 0o600.
	Mode fs.FileMode
	// Replace permits that a file is there already.
	Replace bool
}

// RemoveLeftovers removes what an import to a file that was killed has left. It is to be called
// only if no import to it is running.
func RemoveLeftovers(path string) error {
	var errs []error
	for _, suffix := range []string{partSuffix, scratchSuffix} {
		if err := os.Remove(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// blank is how much of the beginning of a device is zeroed after an import that failed, in
// bytes: without boot sector and partition table nothing takes it for a disk.
const blank = 1 << 20

// output is a target that is being written.
type output struct {
	Target
	part   string // the file that is written
	file   *os.File
	device bool
	most   int64 // bytes that the disk may have
	// zeroed says that what isn't written is zero.
	zeroed bool
	done   bool
}

// openOutput makes the file, or opens the device, and excludes other imports.
func openOutput(t Target, most int64) (*output, error) {
	o := &output{Target: t, part: t.Path, most: most, zeroed: true}
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	info, err := os.Stat(t.Path)
	switch {
	case err == nil && isBlockDevice(info):
		return o, o.openDevice()
	case err == nil && !info.Mode().IsRegular():
		return nil, Refuse(TargetFailed, "%s is neither a file nor a block device", t.Path)
	}
	if _, err := os.Lstat(t.Path); err == nil && !t.Replace {
		return nil, Refuse(TargetExists, "%s is there already", t.Path)
	}
	o.part += partSuffix
	if t.Size > 0 {
		o.most = t.Size
	}
	o.file, err = os.OpenFile(o.part, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, ofTarget("make", o.part, err)
	}
	if err = unix.Flock(int(o.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(Refuse(TargetBusy, "another import writes %s: %w", t.Path, err), o.file.Close())
	}
	return o, nil
}

func (o *output) openDevice() (err error) {
	// Linux refuses a device that is mounted, or otherwise in use.
	o.file, err = os.OpenFile(o.Path, os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return Refuse(TargetBusy, "%s is in use: %w", o.Path, err)
	} else if err != nil {
		return ofTarget("open", o.Path, err)
	}
	o.device = true
	size, err := o.file.Seek(0, io.SeekEnd)
	if err == nil && o.Size > size {
		err = Refuse(ImageTooLarge, "the device %s has %s, less than the %s that the disk is to have", o.Path,
			Size(size), Size(o.Size))
	}
	if err != nil {
		return errors.Join(ofTarget("open", o.Path, err), o.file.Close())
	}
	o.most = size
	if o.Size > 0 {
		o.most = o.Size
	}
	return nil
}

// begin empties the target, for each attempt.
func (o *output) begin() error {
	if !o.device {
		return ofTarget("empty", o.part, o.file.Truncate(0))
	}
	// The kernel zeroes by it, or it fails: a device that can't do it fast gets zeros
	// where there is nothing to write.
	end, err := o.file.Seek(0, io.SeekEnd)
	if err != nil {
		return ofTarget("find the end of", o.Path, err)
	}
	o.zeroed = unix.Fallocate(int(o.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, end) == nil
	return nil
}

// fits returns an error if a disk is larger than the target may be.
func (o *output) fits(size int64) error {
	if size <= o.most {
		return nil
	}
	return Refuse(ImageTooLarge, "the disk of the image has %s, more than the %s that there may be; make the disk larger",
		Size(size), Size(o.most))
}

// zero zeroes a part of a device.
func (o *output) zero(at, length int64) error {
	if length <= 0 {
		return nil
	}
	if at%sectorSize == 0 && length%sectorSize == 0 {
		which := [2]uint64{uint64(at), uint64(length)}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, o.file.Fd(), unix.BLKZEROOUT, uintptr(unsafe.Pointer(&which)))
		if errno == 0 {
			return nil
		}
	}
	for length > 0 {
		n, err := o.file.WriteAt(zeros[:min(length, chunkSize)], at)
		if err != nil {
			return err
		}
		at, length = at+int64(n), length-int64(n)
	}
	return nil
}

// reserve gives a file the size of a disk that is converted into it.
func (o *output) reserve(size int64) error {
	if err := o.fits(size); err != nil || o.device {
		return err
	}
	return ofTarget("make room in", o.Path, o.file.Truncate(roundUp(size)))
}

// finish makes the target whole, with a disk of so many bytes of the image.
func (o *output) finish(size int64) error {
	if o.device {
		end, err := o.file.Seek(0, io.SeekEnd)
		if err == nil && !o.zeroed {
			err = o.zero(roundUp(size), end-roundUp(size))
		}
		if err == nil {
			err = o.file.Sync()
		}
		if err = errors.Join(err, o.file.Close()); err != nil {
			return ofTarget("write", o.Path, err)
		}
		o.done = true
		return nil
	}
	err := o.file.Truncate(max(roundUp(size), o.Size))
	if err == nil {
		err = o.file.Chmod(o.Mode)
	}
	if err == nil {
		err = o.file.Sync()
	}
	if err != nil {
		return ofTarget("write", o.Path, err)
	}
	if err := o.rename(); err != nil {
		return err
	}
	o.done = true
	return ofTarget("write", o.Path, errors.Join(durable.SyncFolder(filepath.Dir(o.Path)), o.file.Close()))
}

// rename gives the file its name, and replaces nothing that may not be.
func (o *output) rename() error {
	var flags uint
	if !o.Replace {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(unix.AT_FDCWD, o.part, unix.AT_FDCWD, o.Path, flags)
	if errors.Is(err, unix.EINVAL) && !o.Replace { // a file system that doesn't know the flag
		if err = os.Link(o.part, o.Path); err == nil {
			err = os.Remove(o.part)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return Refuse(TargetExists, "%s is there already: %w", o.Path, err)
	}
	return ofTarget("write", o.Path, err)
}

// abandon leaves nothing that could be taken for a disk, unless the target is whole.
func (o *output) abandon() error {
	switch {
	case o.done:
		return nil
	case o.device:
		end, err := o.file.Seek(0, io.SeekEnd)
		if err == nil {
			err = o.zero(0, min(blank, end))
		}
		return errors.Join(err, o.file.Sync(), o.file.Close())
	}
	return errors.Join(os.Remove(o.part), o.file.Close())
}
