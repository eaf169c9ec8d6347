package objects

import (
	"fmt"
	"slices"

	v1 "vmop/api/v1"
	"vmop/runner/hardware"
)

// DevicesOf returns a runner's report with fields of the VM's definition instead of the runner's configuration, which
// users of a cluster don't see.
func DevicesOf(vm *v1.VirtualMachine, r hardware.Report) hardware.Report {
	r.Devices = slices.Clone(r.Devices)
	for i := range r.Devices {
		d := &r.Devices[i]
		d.Field, d.Place = definedBy(vm, d.Field, d.Attached), ""
	}
	return r
}

// definedBy returns the field of the definition for a field of the runner's configuration; "" for a disk that an
// attachment defines. The drives of vm.disks precede the others. A VirtualDisk may lack a drive, so the positions of it
// and of the following disks are unknown.
func definedBy(vm *v1.VirtualMachine, field string, attached bool) string {
	var at int
	if _, err := fmt.Sscanf(field, "vm.network[%d]", &at); err == nil {
		return fmt.Sprintf("spec.vm.networks[%d]", at)
	}
	if _, err := fmt.Sscanf(field, "vm.drives[%d]", &at); err != nil {
		return ""
	}
	own := vm.Spec.VM.Disks
	hasOther := slices.ContainsFunc(own[:min(at+1, len(own))], func(d v1.Disk) bool { return d.VirtualDisk != nil })
	switch {
	case at < len(own) && hasOther:
		return "spec.vm.disks"
	case at < len(own):
		return fmt.Sprintf("spec.vm.disks[%d]", at)
	case attached:
		return ""
	}
	return "spec.blockDeviceRefs"
}
