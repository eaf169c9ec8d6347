package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/printable"
	"vmop/test/folder"
	"vmop/vmtypes/evaluate"
)

const (
	oldType = "def launch(vm, host):\n    \"\"\"As it was.\"\"\"\n    return part()\n"
	newType = "def launch(vm, host):\n    \"\"\"As it is now.\"\"\"\n    return part()\n"
)

// loadsPin calls loadPin with its own evaluation group.
func loadsPin(t *testing.T, types, dataDir, name string, update bool) (*Pin, error) {
	t.Helper()
	g := evaluate.NewGroup(t.Context())
	defer g.Close()
	p, vmType, err := loadPin(g, types, dataDir, name, update)
	if err == nil {
		archive, err := vmType.Archive()
		require.NoError(t, err)
		require.Equal(t, string(p.Archive), string(archive))
	}
	return p, err
}

// changedTypes returns a folder with the type mine, which was changed after the start of a VM with it.
func changedTypes(t *testing.T, dataDir string) string {
	t.Helper()
	types := t.TempDir()
	folder.Fill(t, types, folder.Files{"mine.star": oldType, "other.star": oldType})
	first, err := loadsPin(t, types, dataDir, "mine", false)
	require.NoError(t, err)
	require.NotEmpty(t, first.Archive)
	require.Empty(t, folder.Contents(t, dataDir), "it is kept when the VM has proved to start")
	require.NoError(t, first.Keep(dataDir))
	require.NoError(t, writeMachine(dataDir, first.Machines, "q35", "pc-q35-7.2"))
	folder.Fill(t, types, folder.Files{"mine.star": newType})
	return types
}

func TestPinnedTypeIsKeptUntilTheUserWantsAnother(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what     string
		name     string
		update   bool
		source   string
		stored   bool
		machines map[string]string
	}{
		{"a later start", "mine", false, oldType, false, map[string]string{"q35": "pc-q35-7.2"}},
		{"the same type by its file name", "mine.star", false, oldType, false, map[string]string{"q35": "pc-q35-7.2"}},
		{
			"the same type by its path", "/elsewhere/mine.star", false, oldType, false,
			map[string]string{"q35": "pc-q35-7.2"},
		},
		{"updateVmType", "mine", true, newType, true, nil},
		{"another type, the same hardware", "other", false, oldType, true, map[string]string{"q35": "pc-q35-7.2"}},
		{"another type and updateVmType", "other", true, oldType, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p, err := loadsPin(t, changedTypes(t, dir), dir, tt.name, tt.update)
			require.NoError(t, err)
			require.Equal(t, tt.machines, p.Machines)
			require.Equal(t, tt.stored, !p.Kept)
			require.Contains(t, string(p.Archive), tt.source)
			require.NoError(t, p.Keep(dir))
			kept, err := os.ReadFile(filepath.Join(dir, pinnedType))
			require.NoError(t, err)
			require.Equal(t, string(p.Archive), string(kept))
		})
	}
}

func TestBrokenPinSaysWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, file, text, want string }{
		{
			"no archive", pinnedType, strings.Repeat("\x80", 1000) + "\n",
			"pinned in PATH: not an archive of a VM type: the first line is \"" + strings.Repeat("�", 39) +
				"…\", but must be \"VM type \" and a module; restore a backup, or set updateVmType: true to take the type " +
				"from the library again",
		},
		{
			"empty archive", pinnedType, "",
			`pinned in PATH: not an archive of a VM type: the first line is "", but must be "VM type " and a module; restore a ` +
				"backup, or set updateVmType: true to take the type from the library again",
		},
		{
			"a line of machines.txt", PinnedMachines, "q35 pc-q35-7.2\njunk\n",
			`PATH:2: "junk" must be an alias and a machine version, such as q35 pc-q35-7.2; restore a backup, ` +
				"or set updateVmType: true to take the type, and this QEMU's machine version, again",
		},
		{
			"zeros in machines.txt", PinnedMachines, strings.Repeat("\x00", 1000),
			`PATH:1: "` + strings.Repeat("�", 39) + `…" must be an alias and a machine version, such as q35 ` +
				"pc-q35-7.2; restore a backup, or set updateVmType: true to take the type, and this QEMU's machine " +
				"version, again",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			types := changedTypes(t, dir)
			folder.Fill(t, dir, folder.Files{tt.file: tt.text})
			_, err := loadsPin(t, types, dir, "mine", false)
			require.EqualError(t, err, strings.ReplaceAll(tt.want, "PATH", filepath.Join(dir, tt.file)))
			_, err = loadsPin(t, types, dir, "mine", true)
			require.NoError(t, err, "updateVmType helps")
		})
	}
}

// A lost kept type is reported as an error, before another type could change the guest's hardware.
func TestALostPinIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	types := changedTypes(t, t.TempDir())
	folder.Fill(t, dir, folder.Files{PinnedMachines: "q35 pc-q35-7.2\n"})
	_, err := loadsPin(t, types, dir, "mine", false)
	require.ErrorContains(t, err, filepath.Join(dir, pinnedType)+", the VM type that this VM "+
		"was first started with, is gone, but machines.txt exists")
	require.ErrorContains(t, err, "updateVmType: true")
	_, err = loadsPin(t, types, dir, "mine", true)
	require.NoError(t, err, "that helps")
}

// An empty file, left by a power failure during a first start with an older version, counts as no kept type.
func TestEmptyPinIsNone(t *testing.T) {
	t.Parallel()
	for what, have := range map[string]folder.Files{
		"both":         {pinnedType: "", PinnedMachines: ""},
		"the type":     {pinnedType: ""},
		"the machines": {PinnedMachines: ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			types := changedTypes(t, t.TempDir())
			folder.Fill(t, dir, have)
			p, err := loadsPin(t, types, dir, "mine", false)
			require.NoError(t, err)
			require.Empty(t, p.Machines)
			require.False(t, p.Kept)
			require.NoError(t, p.Keep(dir))
			p, err = loadsPin(t, types, dir, "mine", false)
			require.NoError(t, err)
			require.True(t, p.Kept)
		})
	}
}

func TestUnreadablePin(t *testing.T) {
	t.Parallel()
	for _, name := range []string{pinnedType, PinnedMachines} {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		_, err := loadsPin(t, "", dir, "standard", false)
		require.ErrorContains(t, err, "is a directory")
		require.ErrorContains(t, err, filepath.Join(dir, name))
	}
}

func TestMachineVersions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, err := ReadMachines(dir)
	require.NoError(t, err)
	require.Nil(t, none)

	require.NoError(t, writeMachine(dir, nil, "pc-q35-7.2", "pc-q35-7.2"))
	require.Empty(t, folder.Contents(t, dir), "a version needs no memory")
	require.NoError(t, writeMachine(dir, nil, "q35", "pc-q35-7.2"))
	require.Equal(t, "q35 pc-q35-7.2\n", folder.Contents(t, dir)[PinnedMachines])

	machines, err := ReadMachines(dir)
	require.NoError(t, err)
	require.NoError(t, writeMachine(dir, machines, "pc", "pc-i440fx-7.2"))
	require.Equal(t, "pc pc-i440fx-7.2\nq35 pc-q35-7.2\n", folder.Contents(t, dir)[PinnedMachines])
	machines, err = ReadMachines(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"q35": "pc-q35-7.2", "pc": "pc-i440fx-7.2"}, machines)

	p := &Pin{Machines: machines}
	require.True(t, p.HasVersion("pc-q35-7.2"))
	require.False(t, p.HasVersion("q35"))
	require.False(t, p.HasVersion("pc-q35-9.2"))

	// An update stores the alias's current target.
	require.NoError(t, writeMachine(dir, machines, "q35", "pc-q35-9.2"))
	machines, err = ReadMachines(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"q35": "pc-q35-9.2", "pc": "pc-i440fx-7.2"}, machines)
}

// FuzzMachines checks for any file of pinned machine versions that the parsed value can be written and read back
// unchanged.
func FuzzMachines(f *testing.F) {
	for _, text := range []string{
		"", "\n", "q35 pc-q35-7.2\nmicrovm microvm\n", "q35 a\nq35 b", "a b c\n",
		"\u0085 a\u2028b\x00 \x1b[2J\n", "a\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, PinnedMachines), text, 0o600))
		machines, err := ReadMachines(dir)
		if err != nil {
			require.Equal(t, printable.Line(err.Error()), err.Error())
			return
		}
		require.NoError(t, writeMachine(dir, machines, "new", "version"))
		again, err := ReadMachines(dir)
		require.NoError(t, err)
		require.Equal(t, "version", again["new"])
		for alias, version := range machines {
			require.True(t, again[alias] == version || alias == "new", "%q", alias)
		}
	})
}
