package machine

import (
	"cmp"
	"fmt"
	"strings"

	"vmop/vmtypes/plan"
)

// A drive is one of the configuration, or another of the VM type's own.
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

// driveOf returns the drive of a device or, if that is empty or unknown, of a
// node of QEMU's block layer. QEMU spells devices as ids or as paths
// (/machine/peripheral/disk0/virtio-backend).
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
