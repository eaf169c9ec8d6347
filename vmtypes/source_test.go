package vmtypes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/vmtypes"
)

const goodModule = "def launch(vm, host):\n    return part(executable = \"/bin/true\")\n"

// hostileFolder returns a folder with files that must not be read completely, and a type that loads the file called
// name.
func hostileFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("good.star", goodModule)
	write("standard.star", goodModule)
	write("secret.txt", "")
	write("large.star", strings.Repeat("#", vmtypes.MaxModule+1))
	write("sparse.star", "")
	require.NoError(t, os.Truncate(filepath.Join(dir, "sparse.star"), 10<<30))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe.star"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder.star"), 0o700))
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero.star")))
	require.NoError(t, os.Symlink("../../../../../../etc/hostname", filepath.Join(dir, "outside.star")))
	require.NoError(t, os.Symlink("good.star", filepath.Join(dir, "inside.star")))
	for name := range hostileFiles() {
		write("loads_"+name, "load(\""+name+"\", \"x\")\n"+goodModule)
	}
	return dir
}

// hostileFiles maps files to the errors of modules that load them.
func hostileFiles() map[string]string {
	return map[string]string{
		"large.star":  "large.star: the file has 262145 bytes (the maximum is 256 KiB)",
		"sparse.star": "sparse.star: the file has 10737418240 bytes",
		"pipe.star":   "pipe.star: it is a named pipe, not a file", "folder.star": "folder.star: is a directory",
		"zero.star": "path escapes from parent", "outside.star": "path escapes from parent",
		"absent.star": "there is " +
			"no such file",
	}
}

// Files that cannot be modules only affect the modules that load them, whether the folder is read in advance or file by
// file.
func TestSourceOfAHostileFolder(t *testing.T) {
	t.Parallel()
	dir := hostileFolder(t)
	source, err := vmtypes.ReadSource(dir)
	require.NoError(t, err)
	lazy, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer lazy.Close()
	for _, library := range []*vmtypes.Library{source.Library(), lazy} {
		_, err = library.Load(t.Context(), "good")
		require.NoError(t, err)
		_, err = library.Load(t.Context(), "inside")
		require.NoError(t, err)
		for file, want := range hostileFiles() {
			_, err = library.Load(t.Context(), "loads_"+strings.TrimSuffix(file, ".star"))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "loads_"+file+":1:1: cannot load "+file)
		}
	}
}

// A file may have the name of a stock type; LoadFile loads the file.
func TestLoadFile(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{"standard.star": goodModule}}
	own, err := source.Library().LoadFile(t.Context(), "standard.star")
	require.NoError(t, err)
	p, err := own.Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	require.Equal(t, "/bin/true", p.QEMU.Executable)
	stock, err := source.Library().Load(t.Context(), "standard")
	require.NoError(t, err)
	require.NotEqual(t, own.Doc(), stock.Doc())
	require.True(t, vmtypes.IsStock("standard"))
	require.False(t, vmtypes.IsStock("asset"))
}

func TestSourceIsBounded(t *testing.T) {
	t.Parallel()
	absent, err := vmtypes.ReadSource(filepath.Join(t.TempDir(), "absent"))
	require.NoError(t, err)
	require.Empty(t, absent.Modules)
	dir := t.TempDir()
	for i := range vmtypes.MaxSource/vmtypes.MaxModule + 1 {
		name := filepath.Join(dir, strings.Repeat("x", i+1)+".star")
		require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("#", vmtypes.MaxModule)), 0o600))
	}
	_, err = vmtypes.ReadSource(dir)
	require.ErrorContains(t, err, "there are more than 1000 files, or 16 MiB")
}

// A type with an unreadable file exists, and loading it reports the reason.
func TestTypeOfARefusedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "asset.star"), 0o700))
	source, err := vmtypes.ReadSource(dir)
	require.NoError(t, err)
	_, err = source.Library().Load(t.Context(), "asset")
	require.ErrorContains(t, err, "asset.star: is a directory")
}
