package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A libvirt that is installed but cannot start the domain is skipped, with its error as the reason.
func TestUnusableLibvirt(t *testing.T) {
	dir := t.TempDir()
	virsh := "#!/bin/sh\ncase $2 in create*) echo 'error: no KVM'; exit 1 ;; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "virsh"), []byte(virsh), 0o700))
	t.Setenv("PATH", dir)
	b := &bench{ctx: t.Context(), dir: dir}
	c := b.libvirtCandidate(&benchVM{bench: b, dir: dir}, nil, "bare QEMU")
	require.Equal(t, "libvirt: start the domain: exit status 1 error: no KVM", c.skipped)
}
