package launch

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/atomicfile"
	"vmop/test/folder"
	"vmop/vmtypes/plan"
)

// CopyOnce creates, keeps or replaces the guest's copy, vars, of the template with the content NEW! for a kind of
// firmware.
func TestCopyOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what     string
		kind     string
		have     folder.Files
		want     folder.Files
		replaced string
	}{
		{"is made", "4m", folder.Files{}, folder.Files{"vars": "NEW!", "vars.kind": "4m\n"}, ""},
		{"is made where no kind is known", "", folder.Files{}, folder.Files{"vars": "NEW!", "vars.kind": "\n"}, ""},
		{
			"is kept", "4m",
			folder.Files{"vars": "mine", "vars.kind": "4m\n"},
			folder.Files{"vars": "mine", "vars.kind": "4m\n"},
			"",
		},
		{
			"is kept whatever its size", "4m",
			folder.Files{"vars": "mine, longer", "vars.kind": "4m\n"},
			folder.Files{"vars": "mine, longer", "vars.kind": "4m\n"},
			"",
		},
		{
			"is set aside when the firmware is of another kind", "4m",
			folder.Files{"vars": "mine", "vars.kind": "2m\n"},
			folder.Files{"vars": "NEW!", "vars.kind": "4m\n", "vars.2m": "mine"},
			"vars.2m",
		},
		{
			"is set aside beside an earlier one", "4m",
			folder.Files{"vars": "mine", "vars.kind": "2m\n", "vars.2m": "old"},
			folder.Files{"vars": "NEW!", "vars.kind": "4m\n", "vars.2m": "old", "vars.2m.1": "mine"},
			"vars.2m.1",
		},
		{
			"is the original system's, of the same size", "4m",
			folder.Files{"vars": "mine"},
			folder.Files{"vars": "mine", "vars.kind": "4m\n"},
			"",
		},
		{
			"is the original system's, of another size", "4m",
			folder.Files{"vars": "mine, longer"},
			folder.Files{"vars": "NEW!", "vars.kind": "4m\n", "vars.unknown": "mine, longer"},
			"vars.unknown",
		},
		{
			"is of the same size as the template, and its record empty", "4m",
			folder.Files{"vars": "mine", "vars.kind": ""},
			folder.Files{"vars": "mine", "vars.kind": "4m\n"},
			"",
		},
		{
			"is of the same size as the template, and its record damaged", "4m",
			folder.Files{"vars": "mine", "vars.kind": "\x00\x00\x00"},
			folder.Files{"vars": "mine", "vars.kind": "4m\n"},
			"",
		},
		{"was lost", "4m", folder.Files{"vars.kind": "4m\n"}, folder.Files{"vars": "NEW!", "vars.kind": "4m\n"}, ""},
		{
			"was lost and is of another kind now", "4m",
			folder.Files{"vars.kind": "2m\n"},
			folder.Files{"vars": "NEW!", "vars.kind": "4m\n"},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir, templates := t.TempDir(), t.TempDir()
			folder.Fill(t, templates, folder.Files{"template": "NEW!"})
			folder.Fill(t, dir, tt.have)
			f := plan.CopyOnce{
				From: filepath.Join(templates, "template"), To: filepath.Join(dir, "vars"),
				Kind: tt.kind,
			}
			for range 2 { // the second start keeps everything
				replaced, err := copyOnce(f)
				require.NoError(t, err)
				require.Equal(t, tt.want, folder.Contents(t, dir))
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

// A guest's copy is kept if the record of its kind can't be read.
func TestCopyStaysIfItsRecordIsDamaged(t *testing.T) {
	t.Parallel()
	for what, record := range map[string]string{"empty": "", "zeros": "\x00\x00\x00", "blank": "\n", "path": "../4m"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir, have := t.TempDir(), folder.Files{"vars": "mine, longer", "vars.kind": record, "template": "NEW!"}
			folder.Fill(t, dir, have)
			f := plan.CopyOnce{From: filepath.Join(dir, "template"), To: filepath.Join(dir, "vars"), Kind: "4m"}
			_, err := copyOnce(f)
			require.EqualError(t, err, strings.ReplaceAll("PATH/vars.kind is damaged, so it is unknown what PATH/vars is "+
				"good for, and its 12 bytes aren't the 4 of its template PATH/template; no file was changed; write the right "+
				"kind to the record (4m is wanted), or move both files away to create new files", "PATH", dir))
			require.Equal(t, have, folder.Contents(t, dir))
		})
	}
}

func TestCopyOnceNamesTheMissingTemplate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := copyOnce(plan.CopyOnce{From: filepath.Join(dir, "absent"), To: filepath.Join(dir, "vars"), Kind: "4m"})
	require.ErrorContains(t, err, filepath.Join(dir, "absent"))
	require.Empty(t, folder.Contents(t, dir))
}

// fullDisk mounts a file system with space for one page of data.
func fullDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"), "mount a tmpfs (this test needs root)")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// On a full disk no file is half-written, and existing files are kept.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	templates := t.TempDir()
	folder.Fill(t, templates, folder.Files{"template": strings.Repeat("x", 20<<10)})
	dir := fullDisk(t)
	folder.Fill(t, dir, folder.Files{"vars": "mine", "vars.kind": "2m\n"}) // one page each
	before := folder.Contents(t, dir)

	f := plan.CopyOnce{From: filepath.Join(templates, "template"), To: filepath.Join(dir, "vars"), Kind: "4m"}
	_, err := copyOnce(f)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "copy "+f.From+" to "+f.To)
	require.Equal(t, folder.Files{"vars.2m": "mine", "vars.kind": "2m\n"}, folder.Contents(t, dir))

	err = atomicfile.Write(filepath.Join(dir, "vars.kind"), []byte("4m\n"), 0o600, atomicfile.Volatile)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, before["vars.kind"], folder.Contents(t, dir)["vars.kind"])
	require.Len(t, folder.Contents(t, dir), 2)
}
