package vmspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

func TestPathsBeginAtAFolder(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"disk.img":                  "/etc/vm/disk.img",
		"../disk.img":               "/etc/disk.img",
		"/srv/disk.img":             "/srv/disk.img",
		"":                          "",
		"https://example.org/a.iso": "https://example.org/a.iso",
	} {
		require.Equal(t, want, vmspec.Within("/etc/vm", path), path)
	}
}

func TestPathsOfASpecBeginAtAFolder(t *testing.T) {
	t.Parallel()
	spec := vmspec.Spec{
		Drives:        []vmspec.Drive{{File: "a"}, {Device: "b"}, {Resource: "c"}},
		Kernel:        &vmspec.Kernel{Image: "d", Initrd: "e"},
		SerialConsole: &vmspec.SerialConsole{Log: "f"},
	}
	got := spec.Within("/x")
	require.Equal(t, []vmspec.Drive{{File: "/x/a"}, {Device: "/x/b"}, {Resource: "/x/c"}}, got.Drives)
	require.Equal(t, &vmspec.Kernel{Image: "/x/d", Initrd: "/x/e"}, got.Kernel)
	require.Equal(t, "/x/f", got.SerialConsole.Log)
	require.Equal(t, "a", spec.Drives[0].File, "the original stays")
	require.Nil(t, vmspec.Spec{}.Within("/x").Kernel)
}
