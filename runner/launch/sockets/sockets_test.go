package sockets_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/launch/sockets"
)

// listens returns the short path of a listening socket.
func listens(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "k")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path = filepath.Join(dir, "s.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { listener.Close() })
	return path
}

func reaches(path string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// A kept socket is reachable at its path again after its folder was removed. A file that was created there meanwhile
// stays.
func TestKeptSocketsAreReachedAgain(t *testing.T) {
	t.Parallel()
	path := listens(t)
	absent := filepath.Join(filepath.Dir(path), "absent.sock")
	kept, missing := sockets.Keep([]string{path, absent})
	require.Equal(t, []string{absent}, missing)
	require.NoError(t, kept.Link())
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket, info.Mode().Type(), "a socket that is there is no link")

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.ErrorContains(t, kept.Link(), path, "its folder is missing")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	require.False(t, reaches(path))
	require.NoError(t, kept.Link())
	require.True(t, reaches(path))
	require.NoError(t, kept.Link(), "once more")
	require.True(t, reaches(path))

	kept.Close()
	require.False(t, reaches(path), "the link leads nowhere")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("another's"), 0o600))
	require.NoError(t, kept.Link())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "another's", string(text))
}

// A socket held by another process through an inherited descriptor is reachable again, even if this process no longer
// has it.
func TestInheritedSocketsAreReachedAgain(t *testing.T) {
	t.Parallel()
	path := listens(t)
	place, err := sockets.Open(path)
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	child.ExtraFiles = []*os.File{place}
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	require.NoError(t, place.Close())
	holder, err := childprocess.Identify(child.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, sockets.LinkInherited(childprocess.ID{}, path))
	require.False(t, reaches(path), "no process has it")
	require.NoError(t, sockets.LinkInherited(holder, filepath.Join(filepath.Dir(path), "other.sock")))
	require.NoFileExists(t, filepath.Join(filepath.Dir(path), "other.sock"))
	require.NoError(t, sockets.LinkInherited(holder, path))
	require.True(t, reaches(path))
	require.NoError(t, sockets.LinkInherited(holder, path), "once more")
}
