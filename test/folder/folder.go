// Package folder fills folders for tests, and reads them again.
package folder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files are texts by the names of their files.
type Files map[string]string

// Fill writes files into a folder.
func Fill(t testing.TB, dir string, files Files) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// Contents returns the files of a folder, which has no folders.
func Contents(t testing.TB, dir string) Files {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := Files{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(text)
	}
	return files
}
