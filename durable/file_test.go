package durable_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/durable"
)

// The test program is also one that rewrites the file that REWRITE names.
func TestMain(m *testing.M) {
	if path := os.Getenv("REWRITE"); path != "" {
		if durable.File(path, []byte("new")) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.WriteFile(path, []byte("a longer text"), 0o640))
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, durable.File(link, []byte("new")))
	is(t, path, "new")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.ErrorIs(t, durable.File(path+"2", nil), os.ErrNotExist)
}

// A limit of the size of files stands for a disk that is full.
func TestFileStaysIfTheDiskIsFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" XFSZ; ulimit -f 0; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "REWRITE="+path)
	require.ErrorContains(t, cmd.Run(), "exit status 1")
	is(t, path, "old")
}

// is wants a file to have a text, and to be alone in its folder.
func is(t *testing.T, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
