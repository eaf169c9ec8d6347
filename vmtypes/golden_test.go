package vmtypes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bazelbuild/buildtools/build"
	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/vmtypes"
)

const (
	goldens  = "testdata/golden"
	examples = "../examples/vmtypes" // types with their own samples
)

// machines returns the paths of all goldens.
func machines(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{goldens, examples} {
		paths, err := sample.Find(dir)
		require.NoError(t, err)
		all = append(all, paths...)
	}
	return all
}

// The plan of each machine in testdata/golden is unchanged.
func TestGoldens(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	vmtypestest.RunGoldens(t, library, goldens, *update)
}

// The tests of the stock types pass.
func TestStockTypes(t *testing.T) {
	t.Parallel()
	vmtypestest.Run(t, "testdata/tests")
}

// Starlark files that serve as examples are formatted like buildifier's output.
func TestStarlarkIsFormatted(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.star", "lib/*.star", "testdata/tests/*.star"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			file, err := build.ParseDefault(name, text)
			require.NoError(t, err)
			require.Equal(t, string(build.Format(file)), string(text), "%s: make format", name)
		}
	}
}

// Every function of the library has a docstring.
func TestStarlarkFunctionsHaveDocstrings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lib/*.star")
	require.NoError(t, err)
	types, err := filepath.Glob("*.star")
	require.NoError(t, err)
	for _, name := range append(files, types...) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		file, err := build.ParseDefault(name, text)
		require.NoError(t, err)
		for _, statement := range file.Stmt {
			def, ok := statement.(*build.DefStmt)
			if !ok {
				continue
			}
			_, documented := def.Body[0].(*build.StringExpr)
			require.True(t, documented, "%s: %s has no docstring", name, def.Name)
		}
	}
}
