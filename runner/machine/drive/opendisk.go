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
	"vmop/diskimage/nbd"
	"vmop/runner/disks"
	"vmop/vmspec"
)

// OpenDisk opens a disk to attach it while the machine runs. QEMU receives the descriptor, because it may open
// only the files that it was started with.
//
//   - A missing image with a size is created.
//   - A missing disk with a source is an error, because only a restart or vmrunner disk create creates it.
//   - An image that refers to other files is an error, because QEMU could not open them.
//   - For an NBD server, OpenDisk only checks that the server answers, and returns a nil file.
//
// See docs/decisions/0107-attached-disks.md.
func OpenDisk(ctx context.Context, d vmspec.Drive, log *slog.Logger) (*os.File, error) {
	if d.NBD != nil { // QEMU connects itself; there is no file
		return nil, nbd.Probe(ctx, *d.NBD, serverTime)
	}
	if _, err := os.Lstat(d.File); d.Source != "" && errors.Is(err, fs.ErrNotExist) {
		source, _, _ := vmspec.Credentials(d.Source)
		return nil, fmt.Errorf("%s has not been created from %s yet; restart the VM to create it, or: vmrunner disk create",
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
	if err := checkSuits(file, d); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
	}
	return file, nil
}

// checkSuits returns an error if a file can't be attached as a disk.
func checkSuits(file *os.File, d vmspec.Drive) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case d.Device != "" && info.Mode().Type() != fs.ModeDevice:
		return errors.New("it is not a block device")
	case d.Device == "" && !info.Mode().IsRegular():
		return errors.New("it is not a regular file; use device: for a block device")
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
