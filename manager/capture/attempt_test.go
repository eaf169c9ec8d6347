package capture

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// A snapshot has the disks that the VM names and those that its guest has, and no images, which are shared.
func TestDisksOf(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.VM.Disks = []v1.Disk{{VirtualDisk: &v1.VirtualDiskRef{Name: "system"}}}
	vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{
		{Kind: v1.KindVirtualImage, Name: "tools"}, {Kind: v1.KindVirtualDisk, Name: "data"},
	}
	vm.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{
		{Kind: v1.KindVirtualDisk, Name: "data", Attached: true},
		{Kind: v1.KindVirtualDisk, Name: "former", Attached: true},
		{Kind: v1.KindVirtualDisk, Name: "more", Attached: true, Hotplugged: true},
		{Kind: v1.KindVirtualDisk, Name: "coming", Hotplugged: true},
	}
	var names []string
	for _, ref := range disksOf(vm) {
		names = append(names, ref.Name)
	}
	require.Equal(t, []string{"system", "data", "more"}, names)
}
