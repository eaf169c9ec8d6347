//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner sets the owner of a file to the owner of another file.
func keepOwner(file *os.File, of fs.FileInfo) error {
	old, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return file.Chown(int(old.Uid), int(old.Gid))
}
