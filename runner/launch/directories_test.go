package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/launch/cleanup"
	"vmop/runner/prepare"
	"vmop/test/folder"
	"vmop/vmtypes/plan"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestPrivateDirectory(t *testing.T) {
	t.Parallel()
	t.Run("is made for this user only", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "a", "b")
		require.NoError(t, MakePrivateDir(dir))
		require.Equal(t, os.FileMode(0o700), mode(t, dir))
		require.Equal(t, os.FileMode(0o700), mode(t, filepath.Dir(dir)))
	})
	t.Run("is closed to others if it was open", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o777))
		require.NoError(t, MakePrivateDir(dir))
		require.Equal(t, os.FileMode(0o700), mode(t, dir))
	})
	t.Run("is refused if another user made it", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, os.Chown(dir, 65534, 65534), "this test needs root")
		require.ErrorContains(t, MakePrivateDir(dir), dir+" is not a directory of user 0; choose another with runtimeDir")
	})
	t.Run("is refused if another user can exchange it", func(t *testing.T) {
		t.Parallel()
		everybodys := t.TempDir()
		require.NoError(t, os.Chmod(everybodys, 0o777|os.ModeSticky))
		theirs := filepath.Join(everybodys, "theirs")
		require.NoError(t, os.Mkdir(theirs, 0o755))
		require.NoError(t, os.Chown(theirs, 65534, 65534), "this test needs root")
		dir := filepath.Join(theirs, "vmrunner", "test")
		require.ErrorContains(t, MakePrivateDir(dir), theirs+", which leads to "+dir+", is not a directory of user 0")
		require.NoError(t, MakePrivateDir(filepath.Join(everybodys, "ours", "vmrunner", "test")))
	})
	t.Run("is refused if it is a link of another user, or to a directory of one", func(t *testing.T) {
		t.Parallel()
		dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(dir, link))
		require.NoError(t, MakePrivateDir(link), "as systemd makes them")
		require.NoError(t, os.Lchown(link, 65534, 65534), "this test needs root")
		require.ErrorContains(t, MakePrivateDir(link), "is a link of another user")
		require.NoError(t, os.Lchown(link, 0, 0))
		require.NoError(t, os.Chown(dir, 65534, 65534))
		require.ErrorContains(t, MakePrivateDir(link), "is not a directory of user 0")
	})
	t.Run("is refused if it is a file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.ErrorIs(t, MakePrivateDir(file), syscall.ENOTDIR)
	})
}

// At the start, the runtime directory is cleared of a killed runner's files. At the end it is removed unless it
// contains other programs' files.
func TestRuntimeDirectory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what  string
		other folder.Files
		gone  bool
	}{
		{"only ours", nil, true},
		{"with a stranger's file", folder.Files{"stranger": ""}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			at := func(name string) string { return filepath.Join(dir, name) }
			log := slog.New(slog.DiscardHandler)
			l := &Launch{log: log, undo: cleanup.New(log), vm: &prepare.VM{
				DataDir: t.TempDir(), RuntimeDir: dir, Plan: &plan.Plan{
					Listeners: []plan.Listener{{Name: "swtpm", Path: at("swtpm-sock")}},
					Sockets:   []plan.Socket{{Role: "console", Path: at("console.sock")}},
				},
			}}
			require.NoError(t, os.Mkdir(dir, 0o755))
			ours := folder.Files{
				prepare.MonitorSocket: "", prepare.CloudInitImage: "", prepare.RecordFile: "",
				prepare.ProgressFile: "", prepare.TypeFile: "",
				"swtpm-sock": "", "console.sock": "",
			}
			folder.Fill(t, dir, ours)
			folder.Fill(t, dir, tt.other)
			require.NoError(t, l.takeRuntimeDir())
			require.NoError(t, l.makeFiles())
			require.Len(t, folder.Contents(t, dir), len(tt.other))
			require.Equal(t, os.FileMode(0o700), mode(t, dir))

			folder.Fill(t, dir, ours)
			require.NoError(t, l.undo.Run())
			if tt.gone {
				require.NoDirExists(t, dir)
			} else {
				require.Len(t, folder.Contents(t, dir), 1)
			}
		})
	}
}

func TestListeningSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "x")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f, err := listenAt(filepath.Join(dir, "s"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode(t, filepath.Join(dir, "s")))
	require.NoError(t, f.Close())
	require.FileExists(t, filepath.Join(dir, "s"), "it is removed at the end of the run")
	_, err = listenAt(filepath.Join(dir, "s"))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}
