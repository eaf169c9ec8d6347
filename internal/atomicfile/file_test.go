package atomicfile_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/atomicfile"
)

// With REWRITE set, the test program rewrites the file that it names.
func TestMain(m *testing.M) {
	if path := os.Getenv("REWRITE"); path != "" {
		if atomicfile.Rewrite(path, []byte("new")) != nil {
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
	owner := os.Getuid()
	if owner == 0 { // only root can change the owner
		owner = 4321
		require.NoError(t, os.Chown(path, owner, owner))
	}
	require.NoError(t, atomicfile.Rewrite(link, []byte("new")))
	is(t, path, "new")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	require.Equal(t, uint32(owner), info.Sys().(*syscall.Stat_t).Uid)
	require.ErrorIs(t, atomicfile.Rewrite(path+"2", nil), os.ErrNotExist)
}

// A file keeps its content if the disk is full, which the test simulates with a file size limit.
func TestFileStaysIfTheDiskIsFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" XFSZ; ulimit -f 0; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "REWRITE="+path)
	require.ErrorContains(t, cmd.Run(), "exit status 1")
	is(t, path, "old")
}

// is requires that a file contains the text and is the only file in its folder.
func is(t *testing.T, path, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, lifetime := range []atomicfile.Lifetime{atomicfile.Synced, atomicfile.Volatile} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, atomicfile.Write(path, []byte("a longer text"), 0o664, lifetime))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o664), info.Mode(), "whatever the umask is")
		require.NoError(t, atomicfile.Write(path, []byte("new"), 0o600, lifetime))
		info, err = os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		is(t, path, "new")
		require.ErrorIs(t, atomicfile.Write(filepath.Join(path, "x"), nil, 0o600, lifetime), syscall.ENOTDIR)
	}
}

// Write replaces a symbolic link and leaves its target unchanged. In a folder that others can write to, a link must not
// redirect writes to other files.
func TestWriteReplacesLinks(t *testing.T) {
	t.Parallel()
	target, link := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, atomicfile.Write(link, []byte("new"), 0o600, atomicfile.Synced))
	is(t, target, "old")
	is(t, link, "new")
}

// A failed fill keeps the old file and leaves no temporary file.
func TestFillFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	for _, fill := range []func(*os.File) error{
		func(*os.File) error { return io.ErrUnexpectedEOF },
		func(file *os.File) error { return errors.Join(file.Close(), io.ErrUnexpectedEOF) },
	} {
		err := atomicfile.Fill(path, 0o600, atomicfile.Synced, fill)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorContains(t, err, "write "+path)
		is(t, path, "old")
	}
}

// Concurrent readers see either the old or the new content, never a mixture.
func TestReadersSeeOneOrTheOther(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	old, changed := bytes.Repeat([]byte("o"), 1<<16), bytes.Repeat([]byte("n"), 1<<17)
	require.NoError(t, atomicfile.Write(path, old, 0o600, atomicfile.Volatile))
	done := make(chan error, 1)
	go func() {
		var err error
		for range 100 {
			err = errors.Join(err, atomicfile.Write(path, changed, 0o600, atomicfile.Volatile),
				atomicfile.Write(path, old, 0o600, atomicfile.Volatile))
		}
		done <- err
	}()
	for {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, old) || bytes.Equal(text, changed), "%d bytes", len(text))
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink("leftover", filepath.Join(folder, ".link.link")))
	for _, target := range []string{"/a", "/b"} {
		require.NoError(t, atomicfile.Link(target, link))
		at, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, target, at)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// RemoveTemporary finds the unfinished file of a killed program by the name of the target file.
func TestRemoveTemporary(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	err := atomicfile.Fill(path, 0o600, atomicfile.Volatile, func(file *os.File) error {
		return os.Link(file.Name(), file.Name()+"0") // as if the rename had not happened
	})
	require.NoError(t, err)
	for _, kept := range []string{"other", ".other.1", ".file", "file.1"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, kept), nil, 0o600))
	}
	require.NoError(t, atomicfile.RemoveTemporary(folder, "file", "nothing"))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{".file", ".other.1", "file", "file.1", "other"}, names)
	require.ErrorIs(t, atomicfile.RemoveTemporary(path+"2"), os.ErrNotExist)
}

func TestRename(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	require.NoError(t, atomicfile.Rename(path, path+"2"))
	is(t, path+"2", "x")
	require.ErrorIs(t, atomicfile.Rename(path, path+"3"), os.ErrNotExist)
}

func TestCreateReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "vm.yaml")
	require.NoError(t, atomicfile.Create(file, []byte("first"), 0o640))
	err := atomicfile.Create(file, []byte("second"), 0o640)
	require.ErrorIs(t, err, fs.ErrExist)
	require.EqualError(t, err, "write "+file+": file exists")
	link := filepath.Join(dir, "link.yaml")
	require.NoError(t, os.Symlink("nowhere", link))
	require.ErrorIs(t, atomicfile.Create(link, nil, 0o600), fs.ErrExist, "not even a link that leads nowhere")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "first", string(text))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}
