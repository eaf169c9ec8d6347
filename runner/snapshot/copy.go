package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes of what is copied at once, and of what is a hole or not, in bytes.
const (
	chunk = 1 << 20
	block = 64 << 10
)

// copyFile copies a file or a device to a file that isn't there, and returns its size. Where the
// file system can do it, the two share their blocks; else holes and zeros are holes. tell may be
// nil; it gets how many bytes were passed. The copy is not synced.
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

// copyData copies the bytes of a file to another one, at the same places. Into an empty one zeros
// are not written.
func copyData(ctx context.Context, in, out *os.File, size int64, empty bool, tell func(int64)) error {
	buf := make([]byte, chunk)
	for at := int64(0); at < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA); empty && err == nil {
			at = data / block * block
		} else if empty && errors.Is(err, unix.ENXIO) {
			break // nothing but a hole
		}
		n, err := in.ReadAt(buf[:min(chunk, size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if err := write(out, buf[:n], at, empty); err != nil {
			return err
		}
		at += int64(n)
		if tell != nil {
			tell(at)
		}
	}
	return nil
}

// write writes a chunk, without its zeros if there are some already.
func write(out *os.File, data []byte, at int64, empty bool) error {
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
