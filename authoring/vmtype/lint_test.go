package vmtype_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
)

// The stock types, the examples, and the files of "vmtype new" have no lint findings.
func TestOwnTypesAreClean(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "vmrunner", append([]string{"vmtype"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "vmrunner vmtype %q\n%s", args, out)
		require.NotContains(t, string(out), "note:", "%q", args)
	}
	run("lint", "../../vmtypes", "--samples", "../../vmtypes/testdata/golden")
	run("lint", "../../examples/vmtypes")
	types := filepath.Join(dir, "types")
	begin := exec.CommandContext(t.Context(), "vmrunner", "vmtype", "new", "mine")
	require.NoError(t, os.Mkdir(types, 0o700))
	begin.Dir = types
	out, err := begin.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run("lint", types)
	run("fmt", "--check", types)
	run("fmt", "--check", "../../vmtypes", "../../examples/vmtypes")
}
