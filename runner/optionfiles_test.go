package runner_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/vmtypes"
)

// With a configuration from the manager, the runner itself lets vm.options name only files in the image repository,
// independent of the manager's checks, and even with a type that the VM had pinned earlier.
func TestOptionsNameFilesOfTheRepositoryOnly(t *testing.T) {
	t.Parallel()
	v := newVM(t, "windows")
	v.write("secret", "token")
	require.NoError(t, os.MkdirAll(v.path("images"), 0o700))
	require.NoError(t, os.MkdirAll(v.path("data"), 0o700))
	v.write("images/win.iso", "drivers")
	plan := func(file string, confined bool) error {
		var lines []string
		if confined {
			lines = []string{"imageRepository: " + v.path("images")}
		}
		v.configure("windows", lines, "network: []", "firmware: bios",
			"options: {secureBoot: false, tpm: false, virtioDrivers: "+file+"}")
		vm, err := prepare.Plan(t.Context(), v.options().Options)
		if err == nil {
			require.Contains(t, vm.Plan.Text(), "id=drivers-medium")
		}
		return err
	}
	refuses := func() {
		t.Helper()
		require.NoError(t, plan(v.path("images/win.iso"), true))
		require.NoError(t, plan(v.path("secret"), false), "who runs a VM chooses among his own files")
		err := plan(v.path("secret"), true)
		require.ErrorContains(t, err, "is not in the image repository")
		require.ErrorContains(t, err, "vm.options.virtioDrivers")
	}
	refuses()
	windows, err := vmtypes.Source{}.Library().Load(t.Context(), "windows")
	require.NoError(t, err)
	archive, err := windows.Archive()
	require.NoError(t, err)
	v.write("data/vmtype.txtar", strings.ReplaceAll(string(archive), "attr.file(", "attr.string("))
	refuses()
}
