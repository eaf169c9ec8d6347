package runner

import (
	"fmt"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// drives tells which drive of the configuration QEMU speaks of. QEMU knows
// devices (ids) and nodes of its block layer (names), both made by the plan.
type drives struct {
	plan *plan.Plan
	spec *vmspec.Spec
}

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

// at returns the drive of a device or, if that is empty, of a node. QEMU spells
// devices as ids, as paths (/machine/peripheral/disk0/virtio-backend), or by the
// id of their -drive.
func (d drives) at(device, node string) drive {
	id := device
	if rest, ok := strings.CutPrefix(device, "/machine/peripheral/"); ok {
		id, _, _ = strings.Cut(rest, "/")
	}
	for _, o := range d.plan.QEMU.Args {
		of, _ := o.Get("drive")
		if o.Flag == "-device" && of != "" && (o.ID() == id || of == id || id == "" && of == node) {
			id, node = o.ID(), of
			break
		}
	}
	file := d.fileOf(node, len(d.plan.QEMU.Args))
	i, fixed := d.index(id, file)
	if !fixed {
		file = ""
	}
	if i >= 0 {
		return drive{fmt.Sprintf("vm.drives[%d]", i), file}
	}
	for _, name := range []string{id, node} {
		if name != "" {
			return drive{name, file}
		}
	}
	return drive{"a drive", file}
}

// index finds a drive of the configuration by its device or its file, or
// returns -1. The file of one that is not fixed may be another by now.
func (d drives) index(id, file string) (i int, fixed bool) {
	for _, r := range d.plan.Rules {
		switch r := r.(type) {
		case plan.Disk:
			if r.Device == id {
				return r.Drive, true
			}
		case plan.Medium:
			if r.Device == id {
				return r.Drive, false
			}
		}
	}
	for i, x := range d.spec.Drives {
		if file != "" && (x.File == file || x.Device == file || x.Resource == file) {
			return i, true
		}
	}
	return -1, true
}

// fileOf follows a node to the file that it lies in; depth bounds the way.
func (d drives) fileOf(node string, depth int) string {
	for _, o := range d.plan.QEMU.Args {
		if node == "" || o.ID() != node || o.Flag != "-blockdev" && o.Flag != "-drive" {
			continue
		}
		for _, p := range o.Properties {
			if p.Key == "filename" || strings.HasSuffix(p.Key, ".filename") {
				return p.Value
			}
		}
		for _, key := range []string{"file", "image"} {
			if below, ok := o.Get(key); ok && depth > 0 {
				return d.fileOf(below, depth-1)
			}
		}
	}
	return ""
}
