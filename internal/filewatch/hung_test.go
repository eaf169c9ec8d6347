package filewatch_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/filewatch"
	"vmop/test/folder"
)

// A path that changes to a file system that doesn't answer is reported as changed.
func TestChangeToAFileSystemThatHangs(t *testing.T) {
	t.Parallel()
	dir, hung := t.TempDir(), t.TempDir()
	folder.Fill(t, dir, folder.Files{"file": "text"})
	file := filepath.Join(dir, "file")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := filewatch.Files(ctx, slog.New(slog.DiscardHandler), file)
	<-changes // the watch is active
	folder.Hang(t, hung)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(hung, "file"), link))
	require.NoError(t, os.Rename(link, file))
	<-changes
}
