//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"
)

func statDirectory(path string) (owner int, mode fs.FileMode, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return 0, 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), info.Mode(), true
}

// isAccessible reports whether files can be created in a directory.
func isAccessible(dir string) bool {
	const write, search = 2, 1 // W_OK and X_OK of access(2)
	return syscall.Access(dir, write|search) == nil
}
