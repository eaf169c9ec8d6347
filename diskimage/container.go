package diskimage

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// containerHeader is the number of bytes that identify a container's format.
const containerHeader = 512

// Container returns the format of the image in a file or block device: "qcow2", "vmdk", "QED" and so on. It returns
// "" for a raw image. It doesn't use QEMU, which would open other files that the header names.
func Container(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() && !isBlockDevice(info) {
		return "", err
	}
	header := make([]byte, containerHeader)
	n, err := io.ReadFull(f, header)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	if m := findMagic(containerMagics(), header[:n]); m != nil {
		return m.what, nil
	}
	return "", nil
}
