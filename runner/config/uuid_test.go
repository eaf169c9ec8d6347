package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

const someUUID = "2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21"

func TestUUIDIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "uuid.txt")

	planned, err := EnsureUUID(dir, "", false)
	require.NoError(t, err)
	require.Equal(t, PlaceholderUUID, planned)
	require.NoFileExists(t, file)

	made, err := EnsureUUID(dir, "", true)
	require.NoError(t, err)
	require.True(t, vmspec.ValidUUID(made))
	require.Equal(t, byte('4'), made[14], "version")
	require.Contains(t, "89ab", made[19:20], "variant")
	require.NotEqual(t, PlaceholderUUID, made)

	for _, create := range []bool{true, false} {
		again, err := EnsureUUID(dir, "", create)
		require.NoError(t, err)
		require.Equal(t, made, again)
	}

	explicit, err := EnsureUUID(dir, someUUID, true)
	require.NoError(t, err)
	require.Equal(t, someUUID, explicit)
	stored, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, made+"\n", string(stored), "the explicit uuid is not stored")

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestUUIDFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		someUUID:                            someUUID,
		someUUID + "\n":                     someUUID,
		" " + someUUID + " \r\nmore\nlines": someUUID,
		"":                                  PlaceholderUUID,
		"\n":                                PlaceholderUUID,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "uuid.txt"), []byte(content), 0o600))
		id, err := EnsureUUID(dir, "", false)
		require.NoError(t, err, content)
		require.Equal(t, want, id)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "uuid.txt")
	require.NoError(t, os.WriteFile(file, []byte("junk\n"), 0o600))
	_, err := EnsureUUID(dir, "", true)
	require.EqualError(t, err, `read the VM's uuid: the first line of `+file+
		` is "junk", not a uuid; correct it or remove the file`)

	_, err = EnsureUUID(filepath.Join(dir, "missing"), "", true)
	require.ErrorContains(t, err, "store the VM's uuid: write "+filepath.Join(dir, "missing"))

	_, err = EnsureUUID(file, "", true)
	require.ErrorContains(t, err, "read the VM's uuid: open "+file)
}
