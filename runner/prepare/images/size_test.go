package images_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare/images"
)

func TestSizesOfImages(t *testing.T) {
	t.Parallel()
	p := publish(t)
	cache, source := cacheOf(t, p), images.Source{Text: "ours/1"}
	require.Zero(t, cache.SizeOf(source), "it isn't fetched yet")
	require.Zero(t, p.fetched())
	_, err := cache.Pull(t.Context(), source, false, quiet)
	require.NoError(t, err)
	require.EqualValues(t, 4<<20, cache.SizeOf(source))

	dir := t.TempDir()
	for name, content := range map[string][]byte{"disk.qcow2": p.image, "disk.img": content()} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		require.EqualValues(t, 4<<20, cache.SizeOf(images.Source{Text: file}), name)
	}
	require.Zero(t, cache.SizeOf(images.Source{Text: filepath.Join(dir, "nowhere")}))
}
