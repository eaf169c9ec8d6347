package childprocess

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// checkSpec returns errors that the kernel would not report, or not clearly.
func (s Spec) checkSpec() error {
	for _, text := range s.Args {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("argument %q contains a NUL byte: %w", text, syscall.EINVAL)
		}
	}
	for i, f := range s.Files {
		if f == nil {
			return fmt.Errorf("the file for descriptor %d is missing: %w", 3+i, os.ErrInvalid)
		}
		if _, err := f.Stat(); err != nil {
			return fmt.Errorf("the file for descriptor %d: %w", 3+i, err)
		}
	}
	return nil
}

// explainExec describes the cause of an error of execve, because different causes have the same errno.
func (s Spec) explainExec(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	if s.Dir != "" {
		if _, err := os.Stat(s.Dir); err != nil {
			return fmt.Errorf("working directory: %w", err)
		}
	}
	info, statErr := os.Stat(s.Path)
	switch {
	case statErr != nil:
		return statErr
	case errno == syscall.ENOENT:
		return fmt.Errorf("%s exists, but the interpreter or loader that it names does not: %w", s.Path, errno)
	case errno == syscall.EACCES && info.IsDir():
		return fmt.Errorf("%s is a directory: %w", s.Path, errno)
	case errno == syscall.EACCES && info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable (mode %s): %w", s.Path, info.Mode(), errno)
	case errno == syscall.ENOEXEC:
		return fmt.Errorf("%s is not a program for this machine: %w", s.Path, errno)
	}
	return err
}
