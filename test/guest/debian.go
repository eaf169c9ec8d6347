package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// Debian returns the path of a cloud image, qcow2, of a Debian with cloud-init, OpenSSH and QEMU's
// guest agent, which tools/scripts/debian-guest makes. UEFI boots it, and without KVM it takes two
// minutes of processor time until its SSH server answers. It ends the test when there is none. The
// file belongs to the cache: a test must not change it.
func Debian(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("find the cache directory: %v", err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "vmop", "debian-*.qcow2"))
	if err != nil || len(found) != 1 {
		t.Fatalf("find the Debian guest: there are %q (%v): run tools/scripts/debian-guest", found, err)
	}
	return found[0]
}
