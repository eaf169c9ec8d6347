package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Direct I/O depends on the file system, and for raw images on the size.
func TestDirectIO(t *testing.T) {
	t.Parallel()
	image, odd := filepath.Join(t.TempDir(), "a.img"), filepath.Join(t.TempDir(), "b.img")
	require.NoError(t, os.WriteFile(image, make([]byte, 8192), 0o600))
	require.NoError(t, os.WriteFile(odd, make([]byte, 8192+512), 0o600))
	f, err := os.OpenFile(image, os.O_RDONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	facts := new(HostFacts)
	require.True(t, *facts.hasDirectIO(image, "raw"), "the file system of temporary files is ordinary")
	require.True(t, *facts.hasDirectIO(filepath.Join(filepath.Dir(image), "missing.img"), "raw"))
	require.False(t, *facts.hasDirectIO(odd, "raw"), "QEMU would refuse to write to it")
	require.True(t, *facts.hasDirectIO(odd, "qcow2"))
	require.Nil(t, facts.hasDirectIO("/no/such/folder/a.img", "raw"), "another error comes first")
	require.Nil(t, facts.hasDirectIO("/dev/null", "raw"))
	require.False(t, *facts.hasDirectIO("/proc/version", "qcow2"), "a file system without direct I/O")
	require.NoError(t, os.Remove(odd))
	require.False(t, *facts.hasDirectIO(odd, "raw"), "a fact is stored with the VM")
}

// The interfaces are those of QEMU and the kernel.
func TestAIOInterfaces(t *testing.T) {
	t.Parallel()
	facts := new(HostFacts)
	names := facts.aioInterfaces("/usr/bin/qemu-system-x86_64")
	require.Subset(t, []string{"threads", "native", "io_uring"}, names)
	require.Contains(t, names, "threads")
	require.Equal(t, kernelHasRing(), slices.Contains(names, "io_uring"), "Debian's QEMU has liburing")
	script := filepath.Join(t.TempDir(), "qemu")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700))
	require.Empty(t, facts.aioInterfaces(script))
	require.Empty(t, facts.aioInterfaces("/sbin/ldconfig"), "linked statically")
}
