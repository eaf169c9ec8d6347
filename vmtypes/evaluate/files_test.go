package evaluate_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// Files are also confined for a pinned type that is older than options of type file, in this process and in a separate
// process.
func TestFilesOfKeptTypesAreConfined(t *testing.T) {
	t.Parallel()
	windows, err := vmtypes.Source{}.Library().Load(t.Context(), "windows")
	require.NoError(t, err)
	archive, err := windows.Archive()
	require.NoError(t, err)
	old := bytes.ReplaceAll(archive, []byte(`"virtioDrivers": attr.file(`), []byte(`"virtioDrivers": attr.string(`))
	require.NotEqual(t, archive, old)
	kept, err := vmtypes.LoadArchive(t.Context(), old)
	require.NoError(t, err)
	group := evaluate.NewGroup(t.Context())
	t.Cleanup(group.Close)
	inChild := group.AddKept(old)
	const repository, token = "/var/local/vmop-image-repository", "/var/run/secrets/kubernetes.io/serviceaccount/token"
	for file, accepted := range map[string]bool{
		token: false, repository + "/../x": false, repository + "/win.iso": true,
	} {
		spec := vmspec.Spec{
			Name: "test", UUID: "1b4e28ba-2fa1-4d2b-883f-0016d3cca427", MaximumRAM: vmspec.GiB,
			Network: []vmspec.Network{}, Options: map[string]any{"virtioDrivers": file},
		}.WithDefaults()
		host := vmtypes.Host{
			DataDir: "/data", RuntimeDir: "/run/vm", Arch: "x86_64", Exists: func(string) bool { return true },
			Files: vmtypes.Files{Folder: repository, Only: true},
		}
		_, err := kept.Launch(t.Context(), spec, host)
		_, errInChild := inChild.Launch(t.Context(), spec, host)
		for _, err := range []error{err, errInChild} {
			if accepted {
				require.NoError(t, err, file)
				continue
			}
			require.ErrorContains(t, err, "vm.options.virtioDrivers: \""+file+"\" is not in the image repository")
			require.ErrorContains(t, err, "made at @vmtypes//windows.star")
		}
	}
}
