package handover

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// again returns an image as the next runner reads it from the note.
func again(t *testing.T, i Image) (found Image) {
	t.Helper()
	text, err := json.Marshal(i)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &found))
	return found
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Any runner removes a migration's files, but not files with which other programs have replaced them.
func TestImagesAreDropped(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"raw", "qcow2"} {
		for name, c := range map[string]struct {
			change func(t *testing.T, i *Image)
			left   []string
		}{
			"as it is":       {func(*testing.T, *Image) {}, nil},
			"not made":       {func(t *testing.T, i *Image) { require.NoError(t, i.Drop()) }, nil},
			"kept":           {func(t *testing.T, i *Image) { require.NoError(t, i.Keep()) }, []string{"disk"}},
			"one name only":  {func(t *testing.T, i *Image) { require.NoError(t, os.Remove(i.Path)) }, nil},
			"another's file": {func(t *testing.T, i *Image) { replace(t, i.Path) }, []string{"disk"}},
		} {
			t.Run(format+" "+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				i := NewFile("disk0", "disk0-format", filepath.Join(dir, "disk"), format, 8<<20)
				require.NoError(t, i.Make(t.Context()))
				require.Len(t, names(t, dir), 2)
				c.change(t, &i)
				next := again(t, i)
				require.NoError(t, next.Drop())
				require.Equal(t, c.left, names(t, dir))
				require.NoError(t, next.Drop())
				require.NoError(t, next.Keep())
				require.Equal(t, c.left, names(t, dir))
			})
		}
	}
}

func replace(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("another's"), 0o600))
}

// An existing file is not replaced, and is kept when the migration is given up. The same applies to a dangling link.
func TestAnImageReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a file": func(path string) error { return os.WriteFile(path, []byte("another's"), 0o600) },
		"a link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			i := NewFile("disk0", "disk0-format", filepath.Join(dir, "disk"), "raw", 8<<20)
			require.NoError(t, put(i.Path))
			require.ErrorIs(t, i.Make(t.Context()), os.ErrExist)
			next := again(t, i)
			require.NoError(t, next.Drop())
			require.Equal(t, []string{"disk"}, names(t, dir))
		})
	}
}

// A device with data at its beginning or end is not blank. Only the runner that has found it blank clears it.
func TestABlankDevice(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	device := filepath.Join(t.TempDir(), "device") // a file works as well
	write := func(at int64) {
		file, err := os.OpenFile(device, os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte{1}, at)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	isBlank := func() bool {
		blank, bytes, err := IsBlank(device, os.O_RDONLY)
		require.NoError(t, err)
		require.EqualValues(t, size, bytes)
		return blank
	}
	require.NoError(t, os.WriteFile(device, make([]byte, size), 0o600))
	i := Image{ID: "disk0", Path: device, Format: "raw", Size: size}
	require.True(t, isBlank())
	for _, at := range []int64{0, 511, looked - 1, size - looked, size - 1} {
		require.NoError(t, i.Make(t.Context()))
		write(at)
		require.False(t, isBlank())
		next := again(t, i)
		require.NoError(t, next.Drop())
		require.False(t, isBlank(), "it may be another's by now")
		require.ErrorContains(t, next.Make(t.Context()), "is not blank")
		require.NoError(t, next.Drop())
		require.False(t, isBlank())
		require.NoError(t, i.Drop())
		require.True(t, isBlank())
	}
	write(size / 2)
	require.True(t, isBlank())
	i.Size++
	require.ErrorContains(t, i.Make(t.Context()), "has 4194304 bytes, but the disk to copy there has 4194305")
	_, _, err := IsBlank(filepath.Join(t.TempDir(), "none"), os.O_RDONLY)
	require.ErrorIs(t, err, os.ErrNotExist)
}
