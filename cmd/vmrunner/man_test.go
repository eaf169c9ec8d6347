package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
)

// Every verb that the help shows has a man page, as "make man" makes them.
func TestManPages(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "man", ".", "man", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, verb := range newCommand().Commands() {
		if verb.IsAvailableCommand() && verb.Name() != "vmtype" { // the program vmtype writes those
			require.FileExists(t, filepath.Join(dir, "vmrunner-"+verb.Name()+".1"))
		}
	}
}
