// Package regular reads files that others provide: a configuration, a Secret, a VM type,
// a file of a data directory that may have been restored from anything.
//
// Such a path may lead to a named pipe, at which open(2) waits for a writer; to a device
// without an end; to a file that is larger than any of its kind; or to a network file
// system that doesn't answer. So a read here is bounded in kind, size and time, and the
// error says which bound it was. Whoever reads must not wait for ever: a runner would
// neither look after its VM nor end.
package regular

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

// patience is how long a file system has to provide a file.
const patience = 10 * time.Second

// ReadFile returns the content of a file of at most so many bytes. The error is a
// *fs.PathError, also if there is no such file.
func ReadFile(path string, most int64) ([]byte, error) { return read(os.OpenFile, path, most) }

// ReadIn is ReadFile for a file below a folder that no link leads out of.
func ReadIn(root *os.Root, name string, most int64) ([]byte, error) {
	return read(root.OpenFile, name, most)
}

// A SizeError says that a file is larger than who reads it allows.
type SizeError struct{ Size, Most int64 }

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the file has %d bytes (the most is %s)", e.Size, amount(e.Most))
}

// opener is os.OpenFile, or what does the same.
type opener func(name string, flag int, mode fs.FileMode) (*os.File, error)

func read(open opener, path string, most int64) ([]byte, error) {
	return inTime(path, func() ([]byte, error) { return readAll(open, path, most) })
}

// Stat is os.Stat, bounded in time.
func Stat(path string) (fs.FileInfo, error) {
	return inTime(path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// inTime returns what do returns, unless the kernel keeps it, maybe for ever.
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
		return value, refused(path, "its file system does not answer within %s", patience)
	}
}

func readAll(open opener, path string, most int64) ([]byte, error) {
	file, err := openRegular(open, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
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
		return nil, refused(path, "the file has more than %s", amount(most))
	}
	return data.Bytes(), err
}

// Open opens a file for reading; what is no regular file is an error.
func Open(path string) (*os.File, error) { return openRegular(os.OpenFile, path) }

func openRegular(open opener, path string) (*os.File, error) {
	file, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, refused(path, "it is a socket or a device, not a file")
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	}
	if err != nil {
		_ = file.Close() // it was not read
		return nil, err
	}
	return file, nil
}

func notRegular(path string, mode fs.FileMode) error {
	switch {
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case mode&fs.ModeNamedPipe != 0:
		return refused(path, "it is a named pipe, not a file")
	}
	return refused(path, "it is a device, not a file")
}

func refused(path, reason string, args ...any) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(reason, args...)}
}

// amount spells a number of bytes.
func amount(n int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n%kib == 0:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}
