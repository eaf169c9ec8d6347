package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.star", "a")
	write("b.star", "b")
	w, err := New(t.Context(), slog.New(slog.DiscardHandler), dir, filepath.Join(dir, "testdata"))
	require.NoError(t, err)
	// Changes may be reported in parts.
	told := func(names ...string) {
		t.Helper()
		ctx, cancel := wait.Context(t.Context())
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
	// Many editors save by replacing the old file with a new file.
	write(".a.star.tmp", "LONGER")
	require.NoError(t, os.Rename(filepath.Join(dir, ".a.star.tmp"), filepath.Join(dir, "a.star")))
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	for changed := []string{}; !contains(changed, filepath.Join(dir, "a.star")); {
		changed, err = w.Wait(ctx)
		require.NoError(t, err)
	}
	// A new folder is detected.
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
	ctx, cancel := context.WithCancel(t.Context())
	w, err := New(ctx, slog.New(slog.DiscardHandler), t.TempDir())
	require.NoError(t, err)
	waiting, stop := context.WithCancel(t.Context())
	stop()
	_, err = w.Wait(waiting)
	require.ErrorIs(t, err, context.Canceled)
	cancel()
	_, err = w.Wait(t.Context())
	require.ErrorContains(t, err, "watch files: ")
}

// Polling detects new, changed and removed files in a folder when the kernel can't report them.
func TestFoldersArePolled(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.mkdir("types")
	f.write("types/a.star", "a")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		engine := newWatch(slog.New(slog.DiscardHandler), []string{f.at("types") + "/"})
		engine.open = func(context.Context, []string) (watcher, error) { return nil, errors.New("no inotify") }
		w := &Watch{dirs: engine.paths, before: snapshotFiles(engine.paths), changes: engine.changes}
		go engine.runWatch(ctx)
		for _, step := range []func(){
			func() { f.write("types/a.star", "longer") },
			func() { f.write("types/b.star", "b") },
			func() { f.remove("types") },
			func() { f.mkdir("types"); f.write("types/b.star", "again") },
		} {
			step()
			changed, err := w.Wait(ctx)
			require.NoError(t, err)
			require.NotEmpty(t, changed)
		}
		cancel()
		synctest.Wait()
	})
}

// A folder behind a symbolic link is followed when the link is swapped.
func TestFolderBehindALink(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.mkdir("one")
	f.mkdir("two")
	f.write("two/a.star", "a")
	f.link("one", "types")
	w, err := New(t.Context(), slog.New(slog.DiscardHandler), f.at("types"))
	require.NoError(t, err)
	f.swap("two", "types")
	changed, err := w.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{f.at("types/a.star")}, changed)
	f.write("two/b.star", "b")
	changed, err = w.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{f.at("types/b.star")}, changed)
}

func TestFolderThatIsAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := New(t.Context(), slog.New(slog.DiscardHandler), path)
	require.ErrorContains(t, err, "watch the folder "+path)
}
