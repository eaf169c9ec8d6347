// Package folder writes and reads folders for tests. It also provides folders that can't be read, and block devices.
package folder

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Files are texts by file name.
type Files map[string]string

// Fill writes files into a folder, and creates missing folders.
func Fill(t testing.TB, dir string, files Files) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// Contents returns the files of a folder without subfolders.
func Contents(t testing.TB, dir string) Files {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := Files{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(text)
	}
	return files
}

// Device returns a loop device with the content of a file. It needs root.
func Device(t testing.TB, file string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	require.NoError(t, err, "losetup, as root: %s", out)
	name := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", name).Run() })
	return name
}

// Hang mounts a file system at a folder that does not answer until the test has ended, as a network file system may do.
func Hang(t testing.TB, dir string) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	require.NoError(t, err, "this test needs root and /dev/fuse")
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())
	require.NoError(t, unix.Mount("hung", dir, "fuse", 0, options))
	t.Cleanup(func() {
		require.NoError(t, fuse.Close(), "whoever waits gets an error")
		require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
}
