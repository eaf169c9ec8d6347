package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A service's user can read its configuration and owns the files that root has put into its data directory. Targets of
// links and files with a second name keep their owner, because they may be outside the directory.
func TestGrant(t *testing.T) {
	t.Parallel()
	const user = 4711
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"etc/web", "data/tpm", "outside"} {
		require.NoError(t, os.MkdirAll(at(folder), 0o700))
	}
	for _, file := range []string{
		"etc/web.yaml", "etc/web/config.yaml", "etc/other.yaml", "data/disk.img", "data/tpm/state", "outside/secret",
		"outside/named",
	} {
		require.NoError(t, os.WriteFile(at(file), nil, 0o600))
	}
	require.NoError(t, os.Symlink(at("outside/secret"), at("data/link")))
	require.NoError(t, os.Link(at("outside/named"), at("data/named")))

	require.NoError(t, Grant(at("etc"), "web", at("data")), "root's own")
	require.Equal(t, "0 600", ownerAndMode(t, at("data/disk.img")))
	require.NoError(t, os.Chown(at("data"), user, user), "this test needs root")
	require.NoError(t, Grant(at("etc"), "web", at("data")))
	for file, want := range map[string]string{
		"etc": "0 701", "etc/web": "0 750", "etc/web/config.yaml": "0 640", "etc/web.yaml": "0 640",
		"etc/other.yaml": "0 600",
		"data/disk.img":  "4711 600", "data/tpm": "4711 700", "data/tpm/state": "4711 600",
		"outside/secret": "0 600", "outside/named": "0 600",
	} {
		require.Equal(t, want, ownerAndMode(t, at(file)), file)
	}
	require.Equal(t, uint32(user), groupOf(t, at("etc/web.yaml")))
	require.ErrorIs(t, Grant(at("etc"), "../outside", at("data")), ErrName)
}

func ownerAndMode(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return fmt.Sprintf("%d %o", info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm())
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}
