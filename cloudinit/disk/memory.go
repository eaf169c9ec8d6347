package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend"
)

// memory is a disk of fixed size in memory, with go-diskfs' interface for disks. The file systems only use ReadAt
// and WriteAt.
type memory struct {
	size int
	data []byte // the disk up to the last written byte; the rest is zero
}

var _ interface {
	backend.Storage
	backend.WritableFile
} = (*memory)(nil)

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(m.size) {
		return 0, fmt.Errorf("read at %d of a disk of %d bytes: %w", off, m.size, fs.ErrInvalid)
	}
	n := min(len(p), m.size-int(off))
	clear(p[copy(p[:n], m.data[min(int(off), len(m.data)):]):n])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > int64(m.size) {
		return 0, fmt.Errorf("write %d bytes at %d of a disk of %d bytes: %w", len(p), off, m.size,
			io.ErrShortWrite)
	}
	if more := int(off) + len(p) - len(m.data); more > 0 {
		m.data = append(m.data, make([]byte, more)...)
	}
	return copy(m.data[off:], p), nil
}

func (m *memory) Writable() (backend.WritableFile, error) { return m, nil }

func (m *memory) Path() string { return "" }

func (m *memory) Close() error { return nil }

func (m *memory) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (m *memory) Seek(int64, int) (int64, error) { return 0, errors.ErrUnsupported }

func (m *memory) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

func (m *memory) Sys() (*os.File, error) { return nil, errors.ErrUnsupported }
