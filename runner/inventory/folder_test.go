package inventory

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A system-wide folder is readable by all users even if the umask is 077. Otherwise other users' VMs could not read the
// policy for VM types and would not start.
func TestFolderOfTheComputer(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	etc := t.TempDir()
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(filepath.Join(etc, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	of := Place{Folder: filepath.Join(etc, "opt", "vmrunner"), System: true}
	require.NoError(t, of.makeFolder())
	require.Equal(t, fs.FileMode(0o755), mode("opt"))
	require.Equal(t, fs.FileMode(0o755), mode("opt/vmrunner"))
	require.NoError(t, os.Chmod(of.Folder, 0o750))
	require.NoError(t, of.makeFolder())
	require.Equal(t, fs.FileMode(0o750), mode("opt/vmrunner"), "what is there is its administrator's")
	of = Place{Folder: filepath.Join(etc, "home", "config")}
	require.NoError(t, of.makeFolder())
	require.Equal(t, fs.FileMode(0o700), mode("home/config"))
}
