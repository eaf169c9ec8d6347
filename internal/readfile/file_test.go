package readfile_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/readfile"
	"vmop/test/folder"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("file"), []byte("text"), 0o600))
	require.NoError(t, os.WriteFile(path("large"), make([]byte, 3_000_000), 0o600))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	listener, err := net.Listen("unix", path("socket"))
	require.NoError(t, err)
	defer listener.Close()
	links := map[string]string{"link": "file", "zero": "/dev/zero", "to-pipe": "pipe", "endless": "/proc/self/maps"}
	for link, target := range links {
		require.NoError(t, os.Symlink(target, path(link)))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	tests := []struct {
		name string
		most int64
		want string // the expected error
	}{
		{"file", 4, ""},
		{"link", 1 << 20, ""},
		{"file", 3, "read PATH: the file has 4 bytes (the maximum is 3 bytes)"},
		{"large", 1 << 20, "read PATH: the file has 3000000 bytes (the maximum is 1 MiB)"},
		{"endless", 1 << 10, "read PATH: the file has more than 1 KiB"}, // its reported size is 0
		{"absent", 4, "open PATH: no such file or directory"},
		{".", 4, "read PATH: is a directory"},
		{"pipe", 4, "read PATH: it is a named pipe, not a file"},
		{"to-pipe", 4, "read PATH: it is a named pipe, not a file"},
		{"zero", 4, "read PATH: it is a device, not a file"},
		{"socket", 4, "read PATH: it is a socket or a device, not a file"},
	}
	for _, tt := range tests {
		data, err := readfile.ReadFile(path(tt.name), tt.most)
		if tt.want == "" {
			require.NoError(t, err)
			require.Equal(t, "text", string(data))
		} else {
			require.EqualError(t, err, strings.ReplaceAll(tt.want, "PATH", path(tt.name)))
		}
		if target, err := os.Readlink(path(tt.name)); err == nil && filepath.IsAbs(target) {
			continue // it leads out of the folder
		}
		data, err = readfile.ReadIn(root, tt.name, tt.most)
		if tt.want == "" {
			require.NoError(t, err)
			require.Equal(t, "text", string(data))
		} else {
			require.Error(t, err)
		}
	}
	_, err = readfile.Open(path("pipe"))
	require.EqualError(t, err, strings.ReplaceAll("read PATH: it is a named pipe, not a file", "PATH", path("pipe")))
	file, err := readfile.Open(path("file"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// Reading from a file system that hangs, such as a network file system, ends after the time limit.
func TestFileSystemThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder.Hang(t, dir)
	_, err := readfile.ReadFile(filepath.Join(dir, "file"), 4)
	require.EqualError(t, err, "read "+filepath.Join(dir, "file")+": its file system does not answer within 10s")
}
