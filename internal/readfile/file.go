// Package readfile reads files that others provide: a configuration, a Secret, a VM type, or a file in a data
// directory that may come from any backup.
//
// The path of such a file may lead to
//
//   - a named pipe, where open(2) waits for a writer,
//   - a device without an end,
//   - a file that is too large, or
//   - a network file system that doesn't answer.
//
// Therefore reads are limited in kind, size and time, and the error names the limit. Without these limits a read
// could block forever, and a runner would stop managing its VM and could not end.
package readfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// patience is the time limit for a file system to provide a file.
const patience = 10 * time.Second

// ReadFile returns the content of a file of at most the given number of bytes. The error is a *fs.PathError, even if
// the file doesn't exist.
func ReadFile(path string, most int64) ([]byte, error) { return readOpened(os.OpenFile, path, most) }

// ReadIn is like ReadFile, but for a file below a folder. Symbolic links can't lead out of the folder.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	return readOpened(root.OpenFile, name, most)
}

// A SizeError means that a file is larger than the caller permits.
type SizeError struct{ Size, Most int64 }

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the file has %d bytes (the maximum is %s)", e.Size, formatBytes(e.Most))
}

// opener is os.OpenFile or an equivalent.
type opener func(name string, flag int, mode fs.FileMode) (*os.File, error)

func readOpened(open opener, path string, most int64) ([]byte, error) {
	return inTime(path, func() ([]byte, error) { return readAll(open, path, most) })
}

// Stat is os.Stat with a time limit.
func Stat(path string) (fs.FileInfo, error) {
	return inTime(path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// inTime returns the result of do, or an error if the kernel blocks it for too long.
func inTime[T any](path string, do func() (T, error)) (value T, err error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return value, refusalOf(path, "its file system does not answer within %s", patience)
	}
}

func readAll(open opener, path string, most int64) ([]byte, error) {
	file, err := openRegular(open, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: &SizeError{info.Size(), most}}
	}
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(file, most+1))
	if err == nil && int64(data.Len()) > most {
		return nil, refusalOf(path, "the file has more than %s", formatBytes(most))
	}
	return data.Bytes(), err
}

// Open opens a regular file for reading; everything else is an error.
func Open(path string) (*os.File, error) { return openRegular(os.OpenFile, path) }

func openRegular(open opener, path string) (*os.File, error) {
	file, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, refusalOf(path, "it is a socket or a device, not a file")
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	}
	if err != nil {
		_ = file.Close() // the file wasn't read
		return nil, err
	}
	return file, nil
}

func notRegular(path string, mode fs.FileMode) error {
	switch {
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case mode&fs.ModeNamedPipe != 0:
		return refusalOf(path, "it is a named pipe, not a file")
	}
	return refusalOf(path, "it is a device, not a file")
}

func refusalOf(path, reason string, args ...any) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(reason, args...)}
}

// formatBytes formats a number of bytes.
func formatBytes(n int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n%kib == 0:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}
