package v1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
)

// What is generated from the types is what they say now.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	for _, what := range [][]string{
		{"object", "output:object:dir=" + dir},
		{"crd:maxDescLen=400", "output:crd:dir=" + dir},
	} {
		args := append([]string{"tool", "-modfile=../../tools/go.mod", "controller-gen", "paths=."}, what...)
		out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	out, err := exec.CommandContext(t.Context(), "sed", "-i", "-f", "crd.sed",
		filepath.Join(dir, "vmoperator.jdrupes.org_vms.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualmachineclasses.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualdisks.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualimages.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_clustervirtualimages.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_vmpools.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	kept, err := filepath.Glob("../../deploy/crds/*.yaml")
	require.NoError(t, err)
	made, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, kept, len(made))
	for _, kept := range append(kept, "zz_generated.deepcopy.go") {
		want, err := os.ReadFile(filepath.Join(dir, filepath.Base(kept)))
		require.NoError(t, err)
		got, err := os.ReadFile(kept)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: make generate", kept)
	}
}
