package vmtype_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// stockTests returns the folders with the tests of the stock types and the examples.
func stockTests() []string {
	const root = "../../"
	return []string{root + "vmtypes/testdata/tests", root + "vmtypes/testdata/golden", root + "examples/vmtypes"}
}

func TestStockTypesPass(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "vmrunner",
		append([]string{"vmtype", "test"}, stockTests()...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?m)^\d{3,} passed$`, string(out))
}

// BenchmarkTest measures the whole verb with all tests and samples of the stock types. The goal is less than 2 s.
func BenchmarkTest(b *testing.B) {
	for b.Loop() {
		require.NoError(b, exec.CommandContext(b.Context(), "vmrunner",
			append([]string{"vmtype", "test"}, stockTests()...)...).Run())
	}
}
