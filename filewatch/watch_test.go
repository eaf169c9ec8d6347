package filewatch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/filewatch"
)

// patience is far more than a change takes to be told.
const patience = time.Minute

func TestChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.star", "a")
	write("b.star", "b")
	w, err := filewatch.New(dir, filepath.Join(dir, "testdata"))
	require.NoError(t, err)
	defer w.Close()
	// Changes may be told in parts.
	told := func(names ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		seen := map[string]bool{}
		for len(seen) < len(names) {
			changed, err := w.Wait(ctx)
			require.NoError(t, err)
			require.NotEmpty(t, changed)
			for _, path := range changed {
				name, err := filepath.Rel(dir, path)
				require.NoError(t, err)
				require.Contains(t, names, name)
				seen[name] = true
			}
		}
	}
	write("a.star", "longer")
	told("a.star")
	write("c.star", "c")
	require.NoError(t, os.Remove(filepath.Join(dir, "b.star")))
	told("b.star", "c.star")
	// As many editors save: a new file takes the place of the old one.
	write(".a.star.tmp", "LONGER")
	require.NoError(t, os.Rename(filepath.Join(dir, ".a.star.tmp"), filepath.Join(dir, "a.star")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for changed := []string{}; !contains(changed, filepath.Join(dir, "a.star")); {
		changed, err = w.Wait(ctx)
		require.NoError(t, err)
	}
	// A folder that was not there.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "testdata"), 0o700))
	write("testdata/d.txtar", "d")
	told("testdata/d.txtar")
	write("testdata/d.txtar", "dd")
	told("testdata/d.txtar")
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	w, err := filewatch.New(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, w.Close())
	_, err = w.Wait(t.Context())
	require.ErrorContains(t, err, "watch files: ")
}

func TestFolderThatIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := filewatch.New(path)
	require.ErrorContains(t, err, "watch the folder "+path)
}
