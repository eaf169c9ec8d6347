package vmtypes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
)

const covered = `"""A module."""

load("@vmtypes//standard.star", standard = "launch")

names = [name for name in ("a", "b") if name != "b"]

def launch(vm, host):
    """Returns the machine."""
    if vm.useTpm and vm.bootMenu:
        unused()
    elif not vm.useTpm or vm.bootMenu:
        x = 1 if vm.bootMenu else 2
    else:
        x = 3
    f = lambda: unused()
    return standard(vm, host)

def unused():
    """Is never called."""
    for i in range(3):
        fail("unused")
`

// Each statement, condition and lambda is counted as often as it is executed.
func TestCoverageCounts(t *testing.T) {
	t.Parallel()
	source := vmtypes.Source{Modules: map[string]string{"covered.star": covered}}
	counts := &vmtypes.Coverage{}
	ctx := vmtypes.WithCoverage(t.Context(), counts)
	loaded, err := source.Library().Load(ctx, "covered")
	require.NoError(t, err)
	for _, section := range []string{"network: []", "useTpm: true", "useTpm: true"} {
		spec, err := sample.ParseVM([]byte(section))
		require.NoError(t, err)
		_, err = loaded.Launch(ctx, spec, sample.HostFacts{}.Host())
		require.NoError(t, err)
	}
	taken := counts.Take()["covered.star"]
	var got []string
	for i, p := range vmtypes.CoveragePoints("covered.star", covered) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d:%d %s %d %d %s", p.Line, p.Column, p.Kind, taken[2*i],
			taken[2*i+1], p.Function)))
	}
	require.Equal(t, []string{
		"5:1 statement 1 0", "5:41 if 1 1",
		"9:5 statement 3 0 launch", "15:5 statement 3 0", "16:5 statement 3 0",
		"9:8 if 0 3", "10:9 statement 0 0", "11:5 statement 3 0", "9:8 and 2 1",
		"11:10 if 1 2", "12:9 statement 1 0", "14:9 statement 2 0", "11:10 or 1 2", "12:18 if 0 1",
		"15:17 lambda 0 0",
		"20:5 statement 0 0 unused", "21:9 statement 0 0",
	}, got)
	require.Zero(t, counts.Take()["covered.star"][0], "Take sets the counts to zero")
}

// With coverage, the types of the examples compute the same plans from the same lines. TestErrorTexts compares the
// errors of faulty modules.
func TestCoverageChangesNoPlan(t *testing.T) {
	t.Parallel()
	source, err := vmtypes.ReadSource(examples)
	require.NoError(t, err)
	paths, err := sample.Find(examples)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		s, err := sample.Read(path)
		require.NoError(t, err)
		plain, err := s.Plan(t.Context(), source.Library())
		require.NoError(t, err)
		counts := &vmtypes.Coverage{}
		counted, err := s.Plan(vmtypes.WithCoverage(t.Context(), counts), source.Library())
		require.NoError(t, err)
		require.Equal(t, plain, counted, path)
		require.NotEmpty(t, counts.Take(), path)
	}
}
