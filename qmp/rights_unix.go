//go:build unix

package qmp

import (
	"os"
	"syscall"
)

// fileRights returns the control message that sends a descriptor with a command.
func fileRights(file *os.File) []byte { return syscall.UnixRights(int(file.Fd())) }
