package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An error is shown at the field that belongs to its path, in a file and in a resource.
func TestFieldOfAPath(t *testing.T) {
	t.Parallel()
	d := Draft{Disks: make([]Disk, 2)}
	for path, field := range map[string]string{
		"vm.name": "name", "metadata.name": "name", "vmType": "type", "spec.vmType.source": "type",
		"spec.virtualMachineClassName": "vmclass",
		"vm.maximumCpus":               "cpus", "spec.vm.currentCpus": "cpus",
		"vm.maximumRam": "ram", "vm.drives[1].size": "disk.1",
		"spec.vm.disks[0].volumeClaimTemplate.spec": "disk.0",
		"vm.drives[2].file":                         "cd", "spec.vm.disks[2].cdrom": "cd",
		"vm.network": "network", "spec.vm.networks[0].tap": "network", "vm.network[0].type": "network",
		"vm.display.vnc": "screen", "cloudInit.userData": "user", "spec.cloudInit": "user",
		"vm.options.tpm": "option.tpm", "spec.vm.options.list[2]": "option.list", "vm.options.a.b": "option.a",
		"": "", "vm": "", "vm.named": "", "vm.powerdownTimeout": "", "vm.drives[x]": "",
	} {
		require.Equal(t, field, d.Field(path), path)
	}
}

// With disks that outlive the VM, indexes in vm.disks and blockDeviceRefs map to the disks of the draft.
func TestFieldsOfDisks(t *testing.T) {
	t.Parallel()
	d := Draft{Name: "web", Disks: []Disk{{From: FromImage}, {}, {From: FromDisk, Of: "data"}, {}, {From: FromURL}}}
	for path, field := range map[string]string{
		"spec.vm.disks[0].volumeClaimTemplate.spec": "disk.1", "spec.vm.disks[1]": "disk.3",
		"spec.vm.disks[2].cdrom": "cd", "spec.blockDeviceRefs[0].name": "disk.0",
		"spec.blockDeviceRefs[1]": "disk.2", "spec.blockDeviceRefs[2]": "disk.4",
		"spec.blockDeviceRefs[3]": "", "spec.blockDeviceRefs": "",
		PathOfDisk + "web-system.spec.persistentVolumeClaim.size": "disk.0",
		PathOfDisk + "web-disk5.spec.dataSource.http.url":         "disk.4",
		PathOfDisk + "web-disk5":                                  "disk.4",
		PathOfDisk + "web-system2.metadata.name":                  "",
	} {
		require.Equal(t, field, d.Field(path), path)
	}
	require.Equal(t, "disk2", d.DiskName(1), "the VM's own needs no name of the VM")
}

func TestFaultsAsText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "line 3: vm.name: want one\nit is late",
		Faults{{Path: "vm.name", Line: 3, Message: "want one"}, {Message: "it is late"}}.Error())
}
