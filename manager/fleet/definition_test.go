package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A fault is shown at the field that has what is at its path, in a file and in a resource.
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

func TestFaultsAsText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "line 3: vm.name: want one\nit is late",
		Faults{{Path: "vm.name", Line: 3, Message: "want one"}, {Message: "it is late"}}.Error())
}
