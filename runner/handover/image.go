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
	"vmop/durable"
)

// An Image is a disk of the target to which one of the source is copied. It is either a file that isn't there before,
// or a block device that is blank: so what the source writes to is never among them.
//
// A file has two names until the guest has come. The second one, which is in the note, belongs to this migration
// alone: what it leads to may be removed, whatever has happened to the runner, and nothing else.
//
// See docs/decisions/0139-local-disks.md.
type Image struct {
	// ID is that of the device, by which both sides know the disk. Node is what the target's QEMU calls it.
	ID   string `json:"id"`
	Node string `json:"node"`
	// Path is where the VM has it, absolute. Second is the other name of a file; "" for a block device.
	Path   string `json:"path"`
	Second string `json:"second,omitempty"`
	// Format is raw or qcow2, and Size what the guest sees, in bytes.
	Format string `json:"format"`
	Size   int64  `json:"size"`

	cleared bool // a block device that this process has found blank
}

// NewFile returns an image in a file. Nothing is made yet.
func NewFile(id, node, path, format string, size int64) Image {
	second := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".arriving-"+rand.Text())
	return Image{ID: id, Node: node, Path: path, Second: second, Format: format, Size: size}
}

// Make makes a file, or makes sure that a block device is as CheckDevice wants it.
func (i *Image) Make(ctx context.Context) error {
	if i.Second == "" {
		err := i.CheckDevice()
		i.cleared = err == nil
		return err
	}
	if err := i.fill(ctx); err != nil {
		return fmt.Errorf("make the image to which a disk is to be copied: %w", err)
	}
	return nil
}

// CheckDevice returns an error unless a block device is blank, and as large as the disk.
func (i *Image) CheckDevice() error {
	blank, size, err := IsBlank(i.Path, os.O_RDWR|syscall.O_EXCL)
	switch {
	case err != nil:
		return fmt.Errorf("look at the device to which a disk is to be copied: %w", err)
	case size != i.Size:
		return fmt.Errorf("%s has %d bytes, and the disk that is to be copied there %d: it must have as many", i.Path, size,
			i.Size)
	case !blank:
		return fmt.Errorf("%s is not blank: what is there would be overwritten; if it is of no use, clear it: "+
			"blkdiscard -z %s", i.Path, i.Path)
	}
	return nil
}

func (i *Image) fill(ctx context.Context) error {
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
	if err := os.Link(i.Second, i.Path); err != nil { // it replaces nothing
		return err
	}
	return durable.SyncFolder(filepath.Dir(i.Path))
}

// Keep makes the image the VM's own, whose guest is here.
func (i *Image) Keep() error {
	if i.Second == "" {
		return nil
	}
	if err := os.Remove(i.Second); err != nil {
		return ignoreAbsent(err)
	}
	return durable.SyncFolder(filepath.Dir(i.Second))
}

// Drop removes the image of a guest that has not come, which no QEMU has open. Of a block device the beginning and
// the end are cleared, so that nothing takes it for a disk; that only by the process that has found it blank, for
// later it may be another's. What was kept stays.
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
	return durable.SyncFolder(filepath.Dir(i.Second))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// looked is how much is looked at, in bytes: partition tables, file systems and volumes have something there.
const looked = 1 << 20

// IsBlank reports whether a file or block device begins and ends with zeros, and its size in bytes. mode is as for
// os.OpenFile.
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

// clearEnds overwrites what IsBlank looks at.
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
