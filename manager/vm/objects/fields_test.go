package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/runner/hardware"
)

// Users of a cluster see fields of the resource, and no places in the runner's file.
func TestDevicesHaveFieldsOfTheDefinition(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{}}, {VirtualDisk: &v1.VirtualDiskRef{}}, {CDROM: &v1.CDROM{}}}
	for field, want := range map[string]string{
		"vm.network[2]": "spec.vm.networks[2]", "vm.drives[0]": "spec.vm.disks[0]", "vm.drives[1]": "spec.vm.disks",
		"vm.drives[2]": "spec.vm.disks", "vm.drives[3]": "spec.blockDeviceRefs", "": "",
	} {
		r := hardware.Report{Agent: true, Devices: []hardware.Device{{ID: "x", Field: field, Place: "config.yaml:7"}}}
		now := objects.DevicesOf(vm, r)
		require.Equal(t, []hardware.Device{{ID: "x", Field: want}}, now.Devices, field)
		require.True(t, now.Agent)
		require.Equal(t, field, r.Devices[0].Field, "the report stays as it is")
	}
	attached := hardware.Report{Devices: []hardware.Device{{Field: "vm.drives[3]", Attached: true}}}
	require.Empty(t, objects.DevicesOf(vm, attached).Devices[0].Field)
}
