package vmtypes_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
)

// The compiled modules match the sources; to update them, run go generate ./vmtypes.
func TestCompiledModulesAreCurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, vmtypes.Compile(dir))
	want, have := contents(t, dir), contents(t, "compiled")
	require.Len(t, have, len(want), "run go generate ./vmtypes")
	for name, data := range want {
		require.Equal(t, data, have[name], "%s: run go generate ./vmtypes", name)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".gitignore" {
			return err
		}
		data, err := fs.ReadFile(root, path)
		files[path] = string(data)
		return err
	}))
	return files
}
