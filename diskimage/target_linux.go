package diskimage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
)

// Target is the file or device that receives the raw bytes of the disk.
type Target struct {
	// Path is a file in an existing folder, or a block device. A symbolic link is followed only if it leads to a
	// device.
	Path string
	// Size is the size of the disk in bytes; 0 means the size of the image or of the device. A larger image is an
	// error.
	Size int64
	// Mode is the mode of a new file; 0 means 0o600.
	Mode fs.FileMode
	// Replace permits replacing an existing file.
	Replace bool
}

// RemoveLeftovers removes the files that a killed import to path has left. Call it only if no import to path is
// running.
func RemoveLeftovers(path string) error {
	var errs []error
	for _, suffix := range []string{partSuffix, scratchSuffix} {
		if err := os.Remove(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// blank is the number of bytes at the beginning of a device that are zeroed after a failed import. Without a boot
// sector and a partition table, no program mistakes the device for a disk.
const blank = 1 << 20

// output is a target during an import.
type output struct {
	Target
	part   string // the file to write before it gets its final name
	file   *os.File
	device bool
	most   int64 // maximum size of the disk in bytes
	// zeroed means that unwritten bytes are zero.
	zeroed bool
	done   bool
}

// openOutput creates the file, or opens the device, and locks out other imports.
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
		return nil, Refuse(TargetExists, "%s already exists", t.Path)
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
	// Linux refuses a device that is mounted or otherwise in use.
	o.file, err = os.OpenFile(o.Path, os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return Refuse(TargetBusy, "%s is in use: %w", o.Path, err)
	} else if err != nil {
		return ofTarget("open", o.Path, err)
	}
	o.device = true
	size, err := o.file.Seek(0, io.SeekEnd)
	if err == nil && o.Size > size {
		err = Refuse(ImageTooLarge, "the device %s has %s, less than the disk's size of %s", o.Path,
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

// emptyTarget empties the target before each attempt.
func (o *output) emptyTarget() error {
	if !o.device {
		return ofTarget("empty", o.part, o.file.Truncate(0))
	}
	// Fallocate zeroes the device or fails. If the device can't do it fast, the import writes zeros into the gaps.
	end, err := o.file.Seek(0, io.SeekEnd)
	if err != nil {
		return ofTarget("find the end of", o.Path, err)
	}
	o.zeroed = unix.Fallocate(int(o.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, end) == nil
	return nil
}

// checkFits returns an error if a disk of that size is too large for the target.
func (o *output) checkFits(size int64) error {
	if size <= o.most {
		return nil
	}
	return Refuse(ImageTooLarge, "the disk of the image has %s, more than the allowed %s; make the disk larger",
		Size(size), Size(o.most))
}

// zeroRange zeroes a part of a device.
func (o *output) zeroRange(at, length int64) error {
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

// reserveSize sets the size of a file before a disk is converted into it.
func (o *output) reserveSize(size int64) error {
	if err := o.checkFits(size); err != nil || o.device {
		return err
	}
	return ofTarget("make room in", o.Path, o.file.Truncate(roundUp(size)))
}

// finishTarget completes the target. size is the size of the image's disk in bytes.
func (o *output) finishTarget(size int64) error {
	if o.device {
		end, err := o.file.Seek(0, io.SeekEnd)
		if err == nil && !o.zeroed {
			err = o.zeroRange(roundUp(size), end-roundUp(size))
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
	if err := o.renameTarget(); err != nil {
		return err
	}
	o.done = true
	return ofTarget("write", o.Path, errors.Join(atomicfile.SyncFolder(filepath.Dir(o.Path)), o.file.Close()))
}

// renameTarget gives the file its final name. It replaces an existing file only if Replace permits that.
func (o *output) renameTarget() error {
	var flags uint
	if !o.Replace {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(unix.AT_FDCWD, o.part, unix.AT_FDCWD, o.Path, flags)
	if errors.Is(err, unix.EINVAL) && !o.Replace { // the file system doesn't support the flag
		if err = os.Link(o.part, o.Path); err == nil {
			err = os.Remove(o.part)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return Refuse(TargetExists, "%s already exists: %w", o.Path, err)
	}
	return ofTarget("write", o.Path, err)
}

// abandonTarget removes everything that could be mistaken for a disk, unless the target is complete.
func (o *output) abandonTarget() error {
	switch {
	case o.done:
		return nil
	case o.device:
		end, err := o.file.Seek(0, io.SeekEnd)
		if err == nil {
			err = o.zeroRange(0, min(blank, end))
		}
		return errors.Join(err, o.file.Sync(), o.file.Close())
	}
	return errors.Join(os.Remove(o.part), o.file.Close())
}
