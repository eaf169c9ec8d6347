//go:build unix

package qmp

import (
	"os"
	"syscall"
)

// rights sends a descriptor with a command.
func rights(file *os.File) []byte { return syscall.UnixRights(int(file.Fd())) }
