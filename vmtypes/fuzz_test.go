package vmtypes_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/vmtypes"
)

// FuzzLoadArchive loads arbitrary data as a pinned type. The data is a valid type or is rejected, without reading any
// files. An archive of the loaded type results in the same type.
func FuzzLoadArchive(f *testing.F) {
	f.Add(txtar.Format(&txtar.Archive{Comment: []byte("VM type tiny.star\n"), Files: tinyFiles()}))
	library, err := vmtypes.Open("")
	require.NoError(f, err)
	standard, err := library.Load(f.Context(), "standard")
	require.NoError(f, err)
	archive, err := standard.Archive()
	require.NoError(f, err)
	f.Add(archive)
	for _, text := range []string{
		"", "VM type x.star\n", "VM type \n-- --\n",
		"VM type x.star\n-- x.star --\nload(\"../../secret.star\", \"x\")\n",
		"VM type x.star\n-- x.star --\nload(\"x.star\", \"launch\")\n",
		"VM type x.star\n-- x.star --\nload(\"@vmtypes//lib/tpm.star\", \"tpm\")\n",
		"VM type x.star\n-- x.star --\ndef launch(vm, host): return part(executable = \"/bin/true\")\n",
		"VM type x.star\n-- x.star --\nlaunch = lambda vm, host: None\n-- x.star --\n1 / 0\n",
		"VM type x.star\n-- x.star --\ndef launch(vm, host): return [0] * (1 << 40)\n",
		"VM type x.star\n-- x.star --\n\xff\x00\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if doubles(data) {
			return
		}
		vmType, err := vmtypes.LoadArchive(t.Context(), data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "permission denied", "the file system was read")
			return
		}
		again, err := vmType.Archive()
		if err != nil {
			require.ErrorContains(t, err, "archive VM type ")
			return
		}
		copied, err := vmtypes.LoadArchive(t.Context(), again)
		require.NoError(t, err, "%s", again)
		require.Equal(t, vmType.Name(), copied.Name())
		p, err := vmType.Launch(t.Context(), smallVM(), emptyHost())
		if err != nil {
			return
		}
		require.Empty(t, p.Check(), "a plan that was returned is without fault")
		require.True(t, filepath.IsAbs(p.QEMU.Executable))
		same, err := copied.Launch(t.Context(), smallVM(), emptyHost())
		require.NoError(t, err)
		require.Equal(t, p.Text(), same.Text())
	})
}

// doubles reports whether a module contains many operators with which a value can grow without a step for each element.
// Such a module only tests the memory, which Starlark doesn't limit.
func doubles(data []byte) bool {
	return strings.Count(string(data), "**")+strings.Count(string(data), "<<")+strings.Count(string(data), "*") > 8
}
