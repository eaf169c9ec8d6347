package disks

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An overlay's base and the base of that base are read.
func TestBasesOfAnImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	img := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "qemu-img", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	img("create", "-q", "-f", "raw", "a.img", "1M")
	img("create", "-q", "-f", "qcow2", "-b", at("a.img"), "-F", "raw", "b.qcow2")
	img("create", "-q", "-f", "qcow2", "-b", "b.qcow2", "-F", "qcow2", "c.qcow2")
	img("create", "-q", "-f", "qcow2", "alone.qcow2", "1M")
	require.Equal(t, []string{at("b.qcow2"), at("a.img")}, Bases(at("c.qcow2")))
	require.Equal(t, []string{at("a.img")}, Bases(at("b.qcow2")))
	for _, name := range []string{"a.img", "alone.qcow2", "absent", "."} {
		require.Empty(t, Bases(at(name)), name)
	}
	img("rebase", "-u", "-b", "c.qcow2", "-F", "qcow2", "b.qcow2")
	require.Len(t, Bases(at("c.qcow2")), deepestChain, "a chain that leads to itself ends")
}
