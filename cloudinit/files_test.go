package cloudinit

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// A file of any size provides the same data as text in the configuration, and changed content results in a new
// instance.
func TestDataFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	read := func(text string) Seed {
		var c Config
		require.NoError(t, yaml.Unmarshal([]byte(text), &c))
		full, err := c.Read(dir)
		require.NoError(t, err)
		seed, err := full.Seed("vm")
		require.NoError(t, err)
		return seed
	}
	long := "#!/bin/sh\n" + strings.Repeat("echo 0123456789\n", 300<<10/16)
	write("user", long)
	write("network", "# kept\nversion: 2\n")
	seed := read("{userDataFile: user, networkConfigFile: " + filepath.Join(dir, "network") + "}")
	require.Equal(t, long, string(seed.UserData))
	require.Equal(t, "# kept\nversion: 2\n", string(seed.NetworkConfig))
	require.Equal(t, seed, read("{userDataFile: user, networkConfigFile: network}"))

	write("user", "hostname: web\n")
	other := read("{userDataFile: user, networkConfigFile: network}")
	require.Equal(t, "#cloud-config\nhostname: web\n", string(other.UserData), "as a text in the configuration")
	require.NotEqual(t, seed.MetaData, other.MetaData, "another instance-id")
	write("user", " \n")
	require.Equal(t, emptyUserData, string(read("{userDataFile: user}").UserData))
}

// The error names every unreadable file. It quotes no content, and YAML is not accepted as a file's content.
func TestFilesThatCantBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	_, err := (&Config{UserDataFile: "gone", NetworkConfigFile: "folder"}).Read(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "cloudInit.userDataFile: open "+filepath.Join(dir, "gone"))
	require.ErrorContains(t, err, "cloudInit.networkConfigFile: ")

	var c Config
	require.NoError(t, yaml.Unmarshal([]byte("networkConfig: !file {a: 1}"), &c))
	seed, err := c.Seed("vm")
	require.NoError(t, err)
	require.Contains(t, string(seed.NetworkConfig), "a: 1")
}
