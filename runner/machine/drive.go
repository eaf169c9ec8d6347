package machine

import (
	"cmp"
	"fmt"
	"strings"

	"vmop/vmtypes/plan"
)

// A drive is a drive of the configuration, or one that the VM type adds itself.
type drive struct {
	// name is "vm.drives[0]", or QEMU's name.
	name string
	// file or device on the host; may be empty.
	file string
}

func (d drive) String() string {
	if d.file == "" {
		return d.name
	}
	return d.name + ", " + d.file
}

// driveOf returns the drive with a device or, if that is empty or unknown, with a node of QEMU's block layer.
// QEMU refers to devices by ID or by path (/machine/peripheral/disk0/virtio-backend).
func driveOf(p *plan.Plan, device, node string) drive {
	if rest, ok := strings.CutPrefix(device, "/machine/peripheral/"); ok {
		device, _, _ = strings.Cut(rest, "/")
	}
	found, known := p.Drive(device, node)
	if known && found.Index != plan.NotInConfiguration {
		return drive{fmt.Sprintf("vm.drives[%d]", found.Index), found.File}
	}
	if known && found.Device != "" {
		return drive{found.Device, found.File}
	}
	return drive{cmp.Or(device, node, "a drive"), found.File}
}
