package disk

import (
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// CopyName returns the name of the claim that receives the copy of a disk during a migration. Names of disks contain no
// dots, so no other disk's claim can have this name.
func CopyName(d *v1.VirtualDisk, migration types.UID) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(migration))
	return fmt.Sprintf("%s.%012x", ClaimName(d.Name), sum.Sum64()&(1<<48-1))
}

// copyOf returns how a migration copies a disk; nil if it doesn't. It also returns nil if the disk already uses its
// copy, or is a different disk of the same name.
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

// ClaimFor returns the claim of a disk in the next pod that the VM's stateful set creates. During a migration that is
// the target pod.
func ClaimFor(d *v1.VirtualDisk, vm *v1.VirtualMachine) string {
	if copied := copyOf(d, vm.Status.Migration); copied != nil && vm.Status.Migration.Active() {
		return copied.Claim
	}
	return ClaimOf(d)
}

// Moved returns the status of a disk after its copy has replaced its claim.
func Moved(d *v1.VirtualDisk, to v1.DiskTarget) v1.VirtualDiskStatus {
	s := *d.Status.DeepCopy()
	s.Target = to
	return s
}
