package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder is trusted only if it belongs to root and only root can create files in it.
func TestRootsAlone(t *testing.T) {
	t.Parallel()
	require.True(t, rootsAlone("/usr"))
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o777, 0o775, 0o757, os.ModeSticky | 0o777} {
		require.NoError(t, os.Chmod(dir, mode))
		require.False(t, rootsAlone(dir), mode)
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	require.Equal(t, os.Getuid() == 0, rootsAlone(dir))
	require.True(t, isOwn(dir))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, none := range []string{file, file + "2"} {
		require.False(t, rootsAlone(none))
		require.False(t, isOwn(none))
	}
	if os.Getuid() == 0 { // only root can change the owner
		require.NoError(t, os.Chown(dir, 4321, 4321))
		require.False(t, rootsAlone(dir))
		require.False(t, isOwn(dir))
	}
}
