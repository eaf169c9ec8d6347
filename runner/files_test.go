package runner

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/durable"
	"vmop/vmtypes/plan"
)

// contents returns the files of a folder and what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(data)
	}
	return files
}

// fill writes files into a folder.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

type files map[string]string

// What becomes of the guest's own copy, vars, of the template NEW!, which is for
// firmware of a kind.
func TestCopyOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what     string
		kind     string
		have     files
		want     files
		replaced string
	}{
		{"is made", "4m", files{}, files{"vars": "NEW!", "vars.kind": "4m\n"}, ""},
		{"is made where no kind is known", "", files{}, files{"vars": "NEW!", "vars.kind": "\n"}, ""},
		{"is kept", "4m", files{"vars": "mine", "vars.kind": "4m\n"}, files{"vars": "mine", "vars.kind": "4m\n"}, ""},
		{
			"is kept whatever its size", "4m",
			files{"vars": "mine, longer", "vars.kind": "4m\n"},
			files{"vars": "mine, longer", "vars.kind": "4m\n"},
			"",
		},
		{
			"is set aside when the firmware is of another kind", "4m",
			files{"vars": "mine", "vars.kind": "2m\n"},
			files{"vars": "NEW!", "vars.kind": "4m\n", "vars.2m": "mine"},
			"vars.2m",
		},
		{
			"is set aside beside an earlier one", "4m",
			files{"vars": "mine", "vars.kind": "2m\n", "vars.2m": "old"},
			files{"vars": "NEW!", "vars.kind": "4m\n", "vars.2m": "old", "vars.2m.1": "mine"},
			"vars.2m.1",
		},
		{
			"is the original system's, of the same size", "4m",
			files{"vars": "mine"},
			files{"vars": "mine", "vars.kind": "4m\n"},
			"",
		},
		{
			"is the original system's, of another size", "4m",
			files{"vars": "mine, longer"},
			files{"vars": "NEW!", "vars.kind": "4m\n", "vars.unknown": "mine, longer"},
			"vars.unknown",
		},
		{"was lost", "4m", files{"vars.kind": "4m\n"}, files{"vars": "NEW!", "vars.kind": "4m\n"}, ""},
		{
			"was lost and is of another kind now", "4m",
			files{"vars.kind": "2m\n"},
			files{"vars": "NEW!", "vars.kind": "4m\n"},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir, templates := t.TempDir(), t.TempDir()
			fill(t, templates, files{"template": "NEW!"})
			fill(t, dir, tt.have)
			f := plan.CopyOnce{
				From: filepath.Join(templates, "template"), To: filepath.Join(dir, "vars"),
				Kind: tt.kind,
			}
			for range 2 { // the second start changes nothing
				replaced, err := copyOnce(f)
				require.NoError(t, err)
				require.Equal(t, tt.want, files(contents(t, dir)))
				if tt.replaced != "" {
					require.Equal(t, filepath.Join(dir, tt.replaced), replaced)
				}
				tt.replaced = ""
			}
			replaced, err := copyOnce(f)
			require.NoError(t, err)
			require.Empty(t, replaced)
		})
	}
}

func TestCopyOnceNamesTheMissingTemplate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := copyOnce(plan.CopyOnce{From: filepath.Join(dir, "absent"), To: filepath.Join(dir, "vars"), Kind: "4m"})
	require.ErrorContains(t, err, filepath.Join(dir, "absent"))
	require.Empty(t, contents(t, dir))
}

// fullDisk mounts a file system with room for one page of data.
func fullDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"), "mount a tmpfs (this test needs root)")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// A full disk leaves nothing half-written, and what was there stays.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	templates := t.TempDir()
	fill(t, templates, files{"template": strings.Repeat("x", 20<<10)})
	dir := fullDisk(t)
	fill(t, dir, files{"vars": "mine", "vars.kind": "2m\n"}) // a page each
	before := contents(t, dir)

	f := plan.CopyOnce{From: filepath.Join(templates, "template"), To: filepath.Join(dir, "vars"), Kind: "4m"}
	_, err := copyOnce(f)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "copy "+f.From+" to "+f.To)
	require.Equal(t, map[string]string{"vars.2m": "mine", "vars.kind": "2m\n"}, contents(t, dir))

	err = durable.Write(filepath.Join(dir, "vars.kind"), []byte("4m\n"), 0o600, durable.Volatile)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, before["vars.kind"], contents(t, dir)["vars.kind"])
	require.Len(t, contents(t, dir), 2)
}
