package lsp

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The copy of the library has the same path in each session, is restored after damage, and copies of other versions
// are removed when they are old.
func TestLibraryCopyIsDurable(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	first := &libraryCopy{cache: cache}
	require.Empty(t, first.moduleAt("/elsewhere.star"))
	path, err := first.modulePath("@vmtypes//lib/tpm.star")
	require.NoError(t, err)
	require.NoError(t, first.removeCopy())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o400), info.Mode().Perm())

	second := &libraryCopy{cache: cache}
	require.Equal(t, "@vmtypes//lib/tpm.star", second.moduleAt(path), "opened in an earlier session")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	old, young := filepath.Join(cache, "old"), filepath.Join(cache, "young")
	require.NoError(t, os.MkdirAll(filepath.Join(old, "lib"), 0o700))
	require.NoError(t, os.Mkdir(young, 0o700))
	past := time.Now().Add(-2 * unusedCopy)
	require.NoError(t, os.Chtimes(old, past, past))
	again, err := second.modulePath("@vmtypes//lib/tpm.star")
	require.NoError(t, err)
	require.Equal(t, path, again)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), "def tpm(")
	require.NoDirExists(t, old)
	require.DirExists(t, young)
}

func TestLibraryCopyWithoutACacheIsTemporary(t *testing.T) {
	t.Parallel()
	l := new(libraryCopy)
	path, err := l.modulePath("@vmtypes//standard.star")
	require.NoError(t, err)
	require.FileExists(t, path)
	require.Equal(t, "@vmtypes//standard.star", l.moduleAt(path))
	require.NoError(t, l.removeCopy())
	require.NoFileExists(t, path)
}
