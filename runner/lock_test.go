package runner

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockIsHeldOnceAndNamesItsHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	held, err := lockVM(dir)
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	_, err = lockVM(dir)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, filepath.Join(dir, lockFile))
	require.ErrorContains(t, err, fmt.Sprintf("runner process %d", os.Getpid()))

	require.NoError(t, held.Close())
	again, err := lockVM(dir)
	require.NoError(t, err, "a file that was left locks nothing")
	require.NoError(t, again.Close())
}

// The lock lasts as long as a process that inherited it.
func TestLockOutlivesItsRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := lockVM(dir)
	require.NoError(t, err)
	heir := exec.CommandContext(t.Context(), "cat")
	end, err := heir.StdinPipe()
	require.NoError(t, err)
	heir.ExtraFiles = []*os.File{held}
	require.NoError(t, heir.Start())
	require.NoError(t, held.Close())

	_, err = lockVM(dir)
	require.ErrorIs(t, err, ErrLocked)

	require.NoError(t, end.Close())
	require.NoError(t, heir.Wait())
	again, err := lockVM(dir)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestLockNeedsADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := lockVM(file)
	require.ErrorContains(t, err, "make data directory: mkdir "+file)
	require.NotErrorIs(t, err, ErrLocked)
}
