package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"vmop/diskimage"
	"vmop/nbdexport"
	"vmop/runner/disks"
	"vmop/vmspec"
)

// OpenDisk opens a disk that is attached while the machine runs, so that QEMU, which may
// read and write only what it was started with, gets the descriptor. An image that has a size is made where there
// is none. An image that names other files is refused: QEMU couldn't open them. A disk that is made of an image must
// have been made. Of an NBD server is found out whether it answers; then the file is nil.
//
// See docs/decisions/0107-attached-disks.md.
func OpenDisk(ctx context.Context, d vmspec.Drive, log *slog.Logger) (*os.File, error) {
	if d.NBD != nil { // QEMU has the connection; there is no file
		return nil, nbdexport.Probe(ctx, *d.NBD, serverTime)
	}
	if _, err := os.Lstat(d.File); d.Source != "" && errors.Is(err, fs.ErrNotExist) {
		source, _, _ := vmspec.Credentials(d.Source)
		return nil, fmt.Errorf("%s has not been made of %s yet; a restart of the VM makes it, or: vmrunner disk create",
			d.File, source)
	}
	if faults := disks.MakeImages([]vmspec.Drive{d}, log); faults != nil {
		return nil, errors.New(faults[0].Message)
	}
	mode := os.O_RDWR
	if d.ReadOnly {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(cmp.Or(d.File, d.Device), mode|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := suits(file, d); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// suits says why a file can't be a disk that is attached.
func suits(file *os.File, d vmspec.Drive) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case d.Device != "" && info.Mode().Type() != fs.ModeDevice:
		return errors.New("it is no block device")
	case d.Device == "" && !info.Mode().IsRegular():
		return errors.New("it is no regular file; want device: for a block device")
	case d.Format == "raw":
		return nil
	}
	header := make([]byte, diskimage.HeaderSize)
	n, err := file.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := diskimage.Probe(header[:n]); err != nil {
		return fmt.Errorf("%w; such an image can only be attached by a restart of the VM", err)
	}
	return nil
}
