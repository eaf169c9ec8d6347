package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoticesHoldEveryLicence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"LICENSE": "Do as you like.\r\n", "NOTICE.md": "By me.", "license.go": "package x", "README": "hello",
		"used/inside/x.go": "package x", "used/LICENSE-MIT": "By her.", "unused/LICENSE": "By no one.",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	text, err := notices([]module{{
		Name: "example.org/x", Version: "v1.2.3", Dir: dir,
		Packages: []string{dir, dir + "/used/inside"},
	}})
	require.NoError(t, err)
	require.Contains(t, string(text),
		"=\nexample.org/x v1.2.3\n\n--- LICENSE\n\nDo as you like.\n\n--- NOTICE.md\n\nBy me.\n\n--- "+
			"used/LICENSE-MIT\n\nBy her.\n")
	for _, other := range []string{"hello", "package x", "By no one"} {
		require.NotContains(t, string(text), other)
	}
}

func TestNoticesRefuseAModuleWithoutLicence(t *testing.T) {
	t.Parallel()
	_, err := notices([]module{{Name: "example.org/x", Dir: t.TempDir()}})
	require.ErrorContains(t, err, "example.org/x has no licence in")
}

// The list always contains the Go library, because it comes from the real programs.
func TestCompiledInNamesTheGoLibrary(t *testing.T) {
	t.Parallel()
	modules, err := compiledIn(t.Context())
	require.NoError(t, err)
	require.Equal(t, "The Go programming language", modules[0].Name)
	for _, m := range modules {
		require.DirExists(t, m.Dir, m.Name)
		require.NotEqual(t, "vmop", m.Name)
	}
}
