package vmtype_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRender is render as a whole process: with a stock type, and with a type
// that is evaluated in a process of its own.
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
