package handover

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"vmop/diskimage"
	"vmop/internal/atomicfile"
)

// An Image is the target's copy of a disk of the source. It is either a new file or a blank block device, so a
// copy can never overwrite a disk that the source uses.
//
// A file has two names until the guest has arrived. The second name is recorded in the note and belongs to this
// migration alone. Only the file with that name may be removed, in every state of the runner.
//
// See docs/decisions/0139-local-disks.md.
type Image struct {
	// ID is the device's ID, which is equal on both sides. Node is its node name in the target's QEMU.
	ID   string `json:"id"`
	Node string `json:"node"`
	// Path is the VM's absolute path of the image. Second is the second name of a file; "" for a block device.
	Path   string `json:"path"`
	Second string `json:"second,omitempty"`
	// Format is raw or qcow2. Size is the size that the guest sees, in bytes.
	Format string `json:"format"`
	Size   int64  `json:"size"`

	cleared bool // this process has found the block device blank
}

// NewFile returns an image in a file, which it does not create yet.
func NewFile(id, node, path, format string, size int64) Image {
	second := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".arriving-"+rand.Text())
	return Image{ID: id, Node: node, Path: path, Second: second, Format: format, Size: size}
}

// Make creates a file, or checks a block device with CheckDevice.
func (i *Image) Make(ctx context.Context) error {
	if i.Second == "" {
		err := i.CheckDevice()
		i.cleared = err == nil
		return err
	}
	if err := i.fillImage(ctx); err != nil {
		return fmt.Errorf("create the target image of a disk: %w", err)
	}
	return nil
}

// CheckDevice returns an error unless a block device is blank and has the disk's size.
func (i *Image) CheckDevice() error {
	blank, size, err := IsBlank(i.Path, os.O_RDWR|syscall.O_EXCL)
	switch {
	case err != nil:
		return fmt.Errorf("check the target device of a disk: %w", err)
	case size != i.Size:
		return fmt.Errorf("%s has %d bytes, but the disk to copy there has %d: the sizes must be equal", i.Path, size,
			i.Size)
	case !blank:
		return fmt.Errorf("%s is not blank, and its data would be overwritten; if you don't need the data, clear it: "+
			"blkdiscard -z %s", i.Path, i.Path)
	}
	return nil
}

func (i *Image) fillImage(ctx context.Context) error {
	if i.Format == "qcow2" {
		if err := diskimage.CreateQCOW2(ctx, i.Second, i.Size); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(i.Second, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err = file.Chmod(0o600); err == nil && i.Format != "qcow2" {
		err = file.Truncate(i.Size)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(i.Second, i.Path); err != nil { // fails if the path exists
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(i.Path))
}

// Keep gives the image to the VM after the guest has arrived.
func (i *Image) Keep() error {
	if i.Second == "" {
		return nil
	}
	if err := os.Remove(i.Second); err != nil {
		return ignoreAbsent(err)
	}
	return atomicfile.SyncFolder(filepath.Dir(i.Second))
}

// Drop removes the image of a guest that has not arrived. QEMU must not have it open. On a block device, Drop
// clears the beginning and the end, so that the device is not taken for a disk. Only the process that found the
// device blank does so, because the device may have a new owner later. Images that were kept stay.
func (i *Image) Drop() error {
	if i.Second == "" {
		if !i.cleared {
			return nil
		}
		i.cleared = false
		return clearEnds(i.Path)
	}
	ours, err := os.Lstat(i.Second)
	if err != nil {
		return ignoreAbsent(err)
	}
	if there, err := os.Lstat(i.Path); err == nil && os.SameFile(ours, there) {
		if err := os.Remove(i.Path); err != nil {
			return err
		}
	}
	if err := os.Remove(i.Second); err != nil {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(i.Second))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// looked is the number of bytes that are examined. Partition tables, file systems and volumes have data there.
const looked = 1 << 20

// IsBlank reports whether a file or block device begins and ends with zeros, and returns its size in bytes. mode
// is as for os.OpenFile.
func IsBlank(path string, mode int) (blank bool, size int64, err error) {
	file, err := os.OpenFile(path, mode|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, 0, err
	}
	defer file.Close()
	if size, err = file.Seek(0, io.SeekEnd); err != nil {
		return false, 0, err
	}
	part := make([]byte, min(size, looked))
	zeros := make([]byte, len(part))
	for _, at := range []int64{0, size - int64(len(part))} {
		if _, err := file.ReadAt(part, at); err != nil {
			return false, size, err
		}
		if !bytes.Equal(part, zeros) {
			return false, size, nil
		}
	}
	return true, size, nil
}

// clearEnds overwrites the parts that IsBlank examines.
func clearEnds(device string) error {
	file, err := os.OpenFile(device, os.O_RDWR|syscall.O_EXCL, 0)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		zeros := make([]byte, min(size, looked))
		_, err1 := file.WriteAt(zeros, 0)
		_, err2 := file.WriteAt(zeros, size-int64(len(zeros)))
		err = errors.Join(err1, err2, file.Sync())
	}
	return errors.Join(err, file.Close())
}
