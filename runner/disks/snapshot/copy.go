package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes in bytes of the pieces that are copied, and of the blocks that are checked for zeros.
const (
	chunk = 1 << 20
	block = 64 << 10
)

// copyFile copies a file or a device to a new file, and returns its size. If the file system supports it, both
// share their blocks; otherwise holes and zeros become holes. tell receives the number of copied bytes; it may be
// nil. The copy is not synced.
func copyFile(ctx context.Context, from, to string, tell func(int64)) (size int64, err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if size, err = in.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		if err = out.Truncate(size); err == nil {
			err = copyData(ctx, in, out, size, true, tell)
		}
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return 0, errors.Join(err, os.Remove(to))
	}
	return size, nil
}

// copyData copies the bytes of a file to another file, at the same offsets. If the target is empty, it skips
// zeros.
func copyData(ctx context.Context, in, out *os.File, size int64, empty bool, tell func(int64)) error {
	buf := make([]byte, chunk)
	for at := int64(0); at < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA); empty && err == nil {
			at = data / block * block
		} else if empty && errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		n, err := in.ReadAt(buf[:min(chunk, size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if err := writeChunk(out, buf[:n], at, empty); err != nil {
			return err
		}
		at += int64(n)
		if tell != nil {
			tell(at)
		}
	}
	return nil
}

// writeChunk writes a chunk. It skips zeros if the target is empty.
func writeChunk(out *os.File, data []byte, at int64, empty bool) error {
	for len(data) > 0 {
		n := len(data)
		if empty {
			n = min(block, n)
		}
		if !empty || len(bytes.Trim(data[:n], "\x00")) > 0 {
			if _, err := out.WriteAt(data[:n], at); err != nil {
				return err
			}
		}
		data, at = data[n:], at+int64(n)
	}
	return nil
}
