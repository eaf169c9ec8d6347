package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// Debian returns the path of a Debian cloud image (qcow2) with cloud-init, OpenSSH and QEMU's guest agent, which
// tools/scripts/debian-guest creates. It boots with UEFI. Without KVM, its SSH server answers after two minutes of
// processor time. Debian ends the test if the image is missing. The file belongs to the cache: a test must not change
// it.
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
