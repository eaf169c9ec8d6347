//go:build unix

package durable

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner of another one.
func keepOwner(file *os.File, of fs.FileInfo) error {
	old, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return file.Chown(int(old.Uid), int(old.Gid))
}
