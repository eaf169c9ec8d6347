package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// host returns an environment with the variables and writable directories.
func host(variables map[string]string, writable ...string) Env {
	return Env{
		Getenv:   func(key string) string { return variables[key] },
		UserName: "joe", HomeDir: "/users/joe",
		Writable: func(dir string) bool { return slices.Contains(writable, dir) },
	}
}

func named() *Config {
	c := &Config{}
	c.VM.Name = "test"
	return c
}

func TestDataDirectory(t *testing.T) {
	t.Parallel()
	explicit := named()
	explicit.DataDir = "/var/local/vm-data"
	homeless := host(nil)
	homeless.HomeDir = ""
	for _, test := range []struct {
		config *Config
		env    Env
		want   string
	}{
		{explicit, host(map[string]string{"XDG_DATA_HOME": "/data"}), "/var/local/vm-data"},
		{named(), host(map[string]string{"XDG_DATA_HOME": "/data"}), "/data/vmrunner/test"},
		{named(), host(map[string]string{"XDG_DATA_HOME": "relative"}), "/users/joe/.local/share/vmrunner/test"},
		{named(), host(nil), "/users/joe/.local/share/vmrunner/test"},
	} {
		dir, err := test.config.DataDirectory(test.env)
		require.NoError(t, err)
		require.Equal(t, test.want, dir)
	}
	_, err := named().DataDirectory(homeless)
	require.EqualError(t, err, "find a data directory: neither XDG_DATA_HOME nor HOME is set; set dataDir in the configuration")
}

// Relative variables count as unset, and without a home directory no folder is invented.
func TestFolderAndCacheDirectory(t *testing.T) {
	t.Parallel()
	set := map[string]string{"XDG_CONFIG_HOME": "/config", "XDG_CACHE_HOME": "/cache"}
	relative := map[string]string{"XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
	homeless, root := host(relative), host(relative)
	homeless.HomeDir = "users/joe"
	root.UserName = "root"
	for _, test := range []struct {
		env           Env
		folder, cache string
	}{
		{host(set), "/config/vmrunner", "/cache/vmrunner"},
		{host(relative), "/users/joe/.config/vmrunner", "/users/joe/.cache/vmrunner"},
		{root, "/users/joe/.config/vmrunner", "/var/cache/vmrunner"},
	} {
		require.Equal(t, test.folder, test.env.Folder())
		cache, err := test.env.CacheDirectory()
		require.NoError(t, err)
		require.Equal(t, test.cache, cache)
	}
	require.Empty(t, homeless.Folder())
	_, err := homeless.CacheDirectory()
	require.EqualError(t, err, "find a cache directory: neither XDG_CACHE_HOME nor HOME is set")
}

func TestRuntimeDirectory(t *testing.T) {
	t.Parallel()
	explicit := named()
	explicit.RuntimeDir = "/run/mine"
	xdg := map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"}
	require.Equal(t, "/run/mine", explicit.RuntimeDirectory(host(xdg)))
	require.Equal(t, "/run/user/1000/vmrunner/test", named().RuntimeDirectory(host(xdg, "/run/joe")))
	require.Equal(t, "/run/joe/vmrunner/test", named().RuntimeDirectory(host(nil, "/run/joe")))
	require.Equal(t, "/tmp/joe/vmrunner/test", named().RuntimeDirectory(host(nil)))
}

func TestHostEnv(t *testing.T) {
	t.Parallel()
	env := HostEnv()
	require.NotEmpty(t, env.UserName)
	dir := t.TempDir()
	require.True(t, env.Writable(dir))
	require.True(t, env.Writable(filepath.Join(dir, "could", "be", "made")))
	require.NoDirExists(t, filepath.Join(dir, "could"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.False(t, env.Writable(filepath.Join(dir, "file")))
	require.False(t, env.Writable("/proc/self/vmrunner"))
}
