package disk

import (
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// CopyName returns the name of the claim into which a disk is copied by a migration. No disk has a point in its name,
// so it is the claim of no other.
func CopyName(d *v1.VirtualDisk, migration types.UID) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(migration))
	return fmt.Sprintf("%s.%012x", ClaimName(d.Name), sum.Sum64()&(1<<48-1))
}

// copyOf returns what becomes of the disk of a VM whose guest moves; nil if it isn't copied. One that has its copy
// already, or that is another one of the same name, isn't.
func copyOf(d *v1.VirtualDisk, m *v1.Migration) *v1.MigrationDisk {
	if m == nil {
		return nil
	}
	for i := range m.Disks {
		if is := &m.Disks[i]; is.Name == d.Name && is.From.UID == d.Status.Target.UID {
			return is
		}
	}
	return nil
}

// ClaimFor returns the claim of a disk in the pod that the stateful set of a VM makes next: that is the one to which
// the guest moves.
func ClaimFor(d *v1.VirtualDisk, vm *v1.VirtualMachine) string {
	if copied := copyOf(d, vm.Status.Migration); copied != nil && vm.Status.Migration.Active() {
		return copied.Claim
	}
	return ClaimOf(d)
}

// Moved returns the status of a disk whose copy has taken its place.
func Moved(d *v1.VirtualDisk, to v1.DiskTarget) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.Target = to
	return s
}
