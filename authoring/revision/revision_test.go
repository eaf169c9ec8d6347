package revision_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/compare"
	"vmop/authoring/revision"
	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// launch evaluates trusted types in this process.
func launch(ctx context.Context, t revision.Type, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	if t.Archive != nil {
		kept, err := vmtypes.LoadArchive(ctx, t.Archive)
		if err != nil {
			return nil, err
		}
		return kept.Launch(ctx, spec, host)
	}
	library, err := vmtypes.Open(t.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = library.Close() }() // it was only read
	loaded, err := library.Load(ctx, t.Name)
	if err != nil {
		return nil, err
	}
	return loaded.Launch(ctx, spec, host)
}

func open(t *testing.T, name string) *revision.Revision {
	t.Helper()
	r, err := revision.Open(t.Context(), name, launch)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// A copy of the library replaces the program's library. As long as the copy is unchanged, all its types have the same
// plans as in the program.
func TestCopyOfTheLibrary(t *testing.T) {
	t.Parallel()
	changed := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(changed, "lib"), 0o700))
	for _, name := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(name)
		require.NoError(t, err)
		text = strings.ReplaceAll(text, `"driftfix": "slew"`, `"driftfix": "none"`)
		require.NoError(t, os.WriteFile(filepath.Join(changed, strings.TrimPrefix(name, vmtypes.StockPrefix)),
			[]byte(text), 0o600))
	}
	samples, err := revision.ReadSamples("../../vmtypes/testdata/golden", true)
	require.NoError(t, err)
	samples = slices.DeleteFunc(samples,
		func(s *sample.Sample) bool { return !vmtypes.IsStock(s.Type) }) // some samples are for the examples
	same := open(t, "../../vmtypes")
	require.Contains(t, same.Types(), "standard")
	for _, s := range samples {
		got, err := same.Plan(t.Context(), s.Type, s)
		require.NoError(t, err, "%s", s.Path)
		require.Equal(t, s.Text, got.Text(), "%s", s.Path)
	}
	c, err := revision.Compare(t.Context(), same, open(t, changed), samples)
	require.NoError(t, err)
	require.Empty(t, c.Nowhere)
	require.Len(t, c.Results, len(samples))
	groups := compare.Summarize(c.Results)
	require.Len(t, groups, 1)
	require.Equal(t, compare.Clock, groups[0].Meaning)
	require.Equal(t, "-rtc: driftfix slew -> none", groups[0].Text())
}

// The types of a folder are its modules without tests and stock types.
func TestTypesOfAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"web", "web_test", "testing", "standard", "base"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".star"), []byte("x = 1\n"), 0o600))
	}
	require.Equal(t, []string{"base", "web"}, open(t, dir).Types())
}

// The type that a VM has kept can be compared with the current type.
func TestArchive(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	standard, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	text, err := standard.Archive()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "vmtype.txtar")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	kept := open(t, path)
	require.Equal(t, "standard", kept.Single)
	c, err := revision.Compare(t.Context(), kept, open(t, "standard"), nil)
	require.NoError(t, err)
	require.False(t, c.Different())
	require.NotEmpty(t, c.Results)
}

// The stock types have plans for most of the usual VMs.
func TestUsualVMs(t *testing.T) {
	t.Parallel()
	usual, err := sample.Usual("standard")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(usual), 8)
	for _, s := range usual {
		_, err := open(t, "standard").Plan(t.Context(), "standard", s)
		require.NoError(t, err, "%s", s.Path)
	}
}
