package decide

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// copyDisks is recommended only if the disks are the only obstacle to a migration.
func TestMigratable(t *testing.T) {
	t.Parallel()
	local := func(vm *v1.VirtualMachine) {
		vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
	}
	copies := func(vm *v1.VirtualMachine) { vm.Spec.Migration = &v1.MigrationPolicy{CopyDisks: true} }
	pinned := func(vm *v1.VirtualMachine) { vm.Spec.NodeName = "n1" }
	tap := func(vm *v1.VirtualMachine) { vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}} }
	type changes []func(*v1.VirtualMachine)
	const hint = "to migrate to another node, copy the disks with spec.migration: {copyDisks: true}"
	for name, c := range map[string]struct {
		change changes
		status metav1.ConditionStatus
		reason string
		hint   bool
	}{
		"no disks":               {nil, metav1.ConditionTrue, reasonMigratable, false},
		"a local disk":           {changes{local}, metav1.ConditionFalse, reasonOneNode, true},
		"a disk that is copied":  {changes{local, copies}, metav1.ConditionTrue, reasonMigratable, false},
		"its node":               {changes{pinned}, metav1.ConditionFalse, reasonOneNode, false},
		"its node, and a disk":   {changes{pinned, local}, metav1.ConditionFalse, reasonOneNode, false},
		"its node, and a tap":    {changes{pinned, tap}, metav1.ConditionFalse, ReasonNotMigratable, false},
		"a tap":                  {changes{tap}, metav1.ConditionTrue, reasonMigratable, false},
		"a shared disk, and tap": {changes{tap, local, shared}, metav1.ConditionTrue, reasonMigratable, false},
	} {
		s := &Snapshot{VM: &v1.VirtualMachine{}}
		for _, change := range c.change {
			change(s.VM)
		}
		got := checkMigratable(s)
		require.Equal(t, c.status, got.Status, name)
		require.Equal(t, c.reason, got.Reason, name)
		if c.hint {
			require.Contains(t, got.Message, hint, name)
		} else {
			require.NotContains(t, got.Message, hint, name)
		}
	}
}

func shared(vm *v1.VirtualMachine) {
	for _, ref := range vm.Spec.BlockDeviceRefs {
		vm.Status.BlockDeviceRefs = append(vm.Status.BlockDeviceRefs, v1.BlockDeviceStatusRef{
			Kind: ref.Kind, Name: ref.Name, AccessMode: corev1.ReadWriteMany,
		})
	}
}
