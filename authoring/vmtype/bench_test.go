package vmtype_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRender measures render as a whole process, for a stock type and for a type that is evaluated in a separate
// process.
func BenchmarkRender(b *testing.B) {
	for name, set := range map[string]string{"stock": "vmType=standard", "own": "vmType=hugepages"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), "vmrunner", "vmtype", "render", "-f", "testdata/bench.yaml",
					"--set", set, "--vmtypes", "../../examples/vmtypes", "--host", "debian-12")
				out, err := cmd.CombinedOutput()
				require.NoError(b, err, "%s", out)
			}
		})
	}
}
