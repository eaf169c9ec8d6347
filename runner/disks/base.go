package disks

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The header of an image in the format qcow2 (QEMU's docs/interop/qcow2.txt).
const (
	qcow2Magic   = "QFI\xfb"
	baseOffsetAt = 8  // 64 bits
	baseLengthAt = 16 // 32 bits
	qcow2Header  = 72 // its first version
	longestBase  = 1023
)

// deepestChain limits the backing files that are examined, because a chain may lead back to its beginning.
const deepestChain = 64

// Bases returns the backing files of an image of the format qcow2, the nearest first, according to the headers.
// It returns an empty list for other files, and omits backing files that aren't files.
func Bases(image string) []string {
	var list []string
	for at := image; len(list) < deepestChain; {
		base, err := baseOf(at)
		if err != nil || base == "" {
			break
		}
		base = strings.TrimPrefix(base, "file:")
		if !filepath.IsAbs(base) {
			base = filepath.Join(filepath.Dir(at), base)
		}
		list = append(list, filepath.Clean(base))
		at = base
	}
	return list
}

// baseOf returns the name of the backing file in the header of an image; "" without a backing file.
func baseOf(image string) (string, error) {
	f, err := os.OpenFile(image, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() && info.Mode()&os.ModeDevice == 0 {
		return "", errors.Join(err, os.ErrInvalid)
	}
	header := make([]byte, qcow2Header)
	if _, err := f.ReadAt(header, 0); err != nil || string(header[:len(qcow2Magic)]) != qcow2Magic {
		return "", err
	}
	length := binary.BigEndian.Uint32(header[baseLengthAt:])
	offset := binary.BigEndian.Uint64(header[baseOffsetAt:])
	if offset == 0 || length == 0 || length > longestBase {
		return "", nil
	}
	name := make([]byte, length)
	_, err = f.ReadAt(name, int64(offset))
	return string(name), err
}
