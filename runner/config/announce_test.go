package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// announced returns the environment of a host, and a function that creates a runtime directory with a socket.
func announced(t *testing.T) (Env, func(dir string) string) {
	t.Helper()
	root := t.TempDir()
	env := host(map[string]string{"XDG_RUNTIME_DIR": filepath.Join(root, "xdg")})
	env.UserName = filepath.Base(root) // a user name without directories in /run and /tmp
	return env, func(dir string) string {
		path := filepath.Join(root, dir)
		require.NoError(t, os.MkdirAll(path, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, "sock"), nil, 0o600))
		return path
	}
}

func TestMachinesAreFound(t *testing.T) {
	t.Parallel()
	env, run := announced(t)
	require.Empty(t, Machines(env, "sock"))
	usual, other, third := run("xdg/vmrunner/web"), run("elsewhere/db"), run("elsewhere/web")
	run("elsewhere/unknown")
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(usual), "ended"), 0o700))

	back, err := Announce(env, Machine{"web", usual})
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(filepath.Dir(usual), ElsewhereDir), "it is found anyway")
	require.NoError(t, back())
	backDB, err := Announce(env, Machine{"db", other})
	require.NoError(t, err)
	_, err = Announce(env, Machine{"web", third})
	require.NoError(t, err)
	_, err = Announce(env, Machine{"web", third}) // by a runner that takes over
	require.NoError(t, err)
	require.Equal(t, []Machine{{"db", other}, {"web", third}, {"web", usual}}, Machines(env, "sock"))

	require.NoError(t, backDB())
	require.NoError(t, backDB())
	require.Equal(t, []Machine{{"web", third}, {"web", usual}}, Machines(env, "sock"))

	// A killed runner with a removed directory is forgotten.
	require.NoError(t, os.RemoveAll(third))
	require.Equal(t, []Machine{{"web", usual}}, Machines(env, "sock"))
	require.Empty(t, entriesOf(filepath.Join(filepath.Dir(usual), ElsewhereDir)))
}

// Other users' directories are not read or written. Only root reads the directories of services, which run as their own
// users, if only root can create them.
func TestMachinesOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root")
	}
	env, run := announced(t)
	theirs := run("xdg/vmrunner/theirs")
	mine := run("xdg/vmrunner/mine")
	require.NoError(t, os.Chown(theirs, 1, 1))
	require.Equal(t, []Machine{{"mine", mine}, {"theirs", theirs}}, Machines(env, "sock"))
	require.NoError(t, os.Chmod(filepath.Dir(mine), 0o777))
	require.Equal(t, []Machine{{"mine", mine}}, Machines(env, "sock"))
	require.NoError(t, os.Chown(filepath.Dir(mine), 1, 1))
	require.Empty(t, Machines(env, "sock"))

	require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(mine), ElsewhereDir), 0o700))
	require.NoError(t, os.Chown(filepath.Join(filepath.Dir(mine), ElsewhereDir), 1, 1))
	_, err := Announce(env, Machine{"db", run("db")})
	require.ErrorContains(t, err, "is not a directory of user 0")
}

// If only TMPDIR is writable, as in a pod, VMs are found there.
func TestMachinesOfAPod(t *testing.T) {
	t.Parallel()
	_, run := announced(t)
	dir := run("run/web")
	root := filepath.Dir(filepath.Dir(dir))
	env := host(map[string]string{"XDG_RUNTIME_DIR": filepath.Join(dir, "sock"), "TMPDIR": filepath.Join(root, "run")})
	env.UserName = "65532"
	back, err := Announce(env, Machine{"web", dir})
	require.NoError(t, err)
	require.Equal(t, []Machine{{"web", dir}}, Machines(env, "sock"))
	require.NoError(t, back())
	require.Empty(t, Machines(env, "sock"))

	_, err = Announce(host(map[string]string{"XDG_RUNTIME_DIR": filepath.Join(dir, "sock")}), Machine{"web", dir})
	require.ErrorContains(t, err, "announce the VM: ")
}
