package adopt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// addDrive adds a drive in the old notation. The values are the properties of -drive.
func (w *wish) addDrive(line int, values map[string]string) {
	one := Want{Line: line, Option: plan.Option{Flag: "-drive", List: true}}
	for _, key := range []string{"file", "if", "media", "format"} {
		if values[key] != "" {
			one.Properties = append(one.Properties, plan.Property{Key: key, Value: values[key]})
		}
	}
	w.wants = append(w.wants, one)
}

// splitDisks converts each -drive to the notation of types: a disk has two block nodes, for the file and for its
// format, and a device; a CD drive keeps -drive, which a running VM can change.
func (w *wish) splitDisks() {
	list := w.wants
	w.wants = nil
	n := 0
	for _, one := range list {
		switch {
		case one.Flag == "-drive":
			n++
			w.splitDrive(one, fmt.Sprintf("drive%d-%d", one.Line, n), list)
		case one.Flag == "-blockdev" && hasNested(one.Option):
			w.splitNode(one)
		default:
			w.wants = append(w.wants, one)
		}
	}
	for i := range w.wants { // a drive without a medium has no block node
		one := &w.wants[i]
		one.Properties = slices.DeleteFunc(slices.Clone(one.Properties), func(p plan.Property) bool {
			return one.Flag == "-device" && p.Key == "drive" && slices.Contains(w.empty, p.Value)
		})
	}
}

// splitDrive converts one -drive. others are all options; one of them can be the drive's device.
func (w *wish) splitDrive(one Want, unnamed string, others []Want) {
	get := func(key string) string { value, _ := one.Get(key); return value }
	id := get("id")
	if id == "" {
		id = unnamed
	}
	device := slices.IndexFunc(others, func(o Want) bool {
		drive, _ := o.Get("drive")
		return o.Flag == "-device" && drive == id
	})
	file := get("file")
	isCD := get("media") == "cdrom" || device >= 0 && strings.HasSuffix(others[device].Value, "-cd")
	switch kind := get("if"); {
	case kind == "pflash":
		w.firmware = append(w.firmware, file)
		w.wants = append(w.wants, one)
		return
	case kind == "floppy" || kind == "sd" || kind == "mtd":
		w.leaveOut(one, "vm.drives has no drives of this kind")
		return
	case file == "" && !isCD || get("file.filename") != "" || get("file.driver") != "":
		w.wants = append(w.wants, one) // the notation of types
		return
	case kind != "none" || device < 0:
		w.keepOption(one.Line, "-device", driverOf(kind, isCD), withBootindex(get("bootindex"), plan.Property{
			Key: "drive", Value: id,
		})...)
	}
	switch {
	case isCD && file == "":
		w.empty = append(w.empty, id)
		return
	case isCD:
		w.keepOption(one.Line, "-drive", "", mediumOf(id, file)...)
		return
	}
	w.addNodes(one, id, file)
}

func withBootindex(value string, list ...plan.Property) []plan.Property {
	if value != "" {
		list = append(list, plan.Property{Key: "bootindex", Value: value})
	}
	return list
}

// driverOf returns the device for a value of -drive if=….
func driverOf(kind string, isCD bool) string {
	switch {
	case isCD && kind == "scsi":
		return "scsi-cd"
	case isCD:
		return "ide-cd"
	case kind == "virtio":
		return "virtio-blk-pci"
	case kind == "scsi":
		return "scsi-hd"
	}
	return "ide-hd"
}

// mediumOf returns the properties of a CD drive's medium in the notation of types.
func mediumOf(id, file string) []plan.Property {
	list := []plan.Property{
		{Key: "id", Value: id},
		{Key: "if", Value: "none"},
		{Key: "media", Value: "cdrom"},
		{Key: "readonly", Value: "on"},
	}
	return append(list, plan.Property{Key: "format", Value: "raw"}, plan.Property{Key: "file.driver", Value: "file"},
		plan.Property{Key: "file.filename", Value: file})
}

// caches are the properties of block nodes for the values of -drive cache=….
var caches = map[string][]plan.Property{
	"none":       {{Key: "cache.direct", Value: "on"}},
	"directsync": {{Key: "cache.direct", Value: "on"}},
	"unsafe":     {{Key: "cache.no-flush", Value: "on"}},
}

// addNodes adds the two block nodes of a disk.
func (w *wish) addNodes(one Want, id, file string) {
	format, driver := "raw", "file"
	if strings.HasSuffix(file, ".qcow2") {
		format = "qcow2"
	}
	if strings.HasPrefix(file, "/dev/") {
		driver = "host_device"
	}
	nodes := []plan.Property{{Key: "node-name", Value: id + "-file"}, {Key: "driver", Value: driver}, {
		Key: "filename", Value: file,
	}}
	top := []plan.Property{}
	for _, p := range one.Properties {
		switch p.Key {
		case "format":
			format = p.Value
		case "cache":
			nodes = append(nodes, caches[p.Value]...)
		case "aio":
			nodes = append(nodes, p)
		case "discard", "detect-zeroes":
			if p.Key == "discard" && p.Value == "on" {
				p.Value = "unmap"
			}
			if top = append(top, p); p.Key == "discard" {
				nodes = append(nodes, p)
			}
		case "readonly", "read-only":
			top = append(top, plan.Property{Key: "read-only", Value: p.Value})
			nodes = append(nodes, plan.Property{Key: "read-only", Value: p.Value})
		case "id", "if", "file", "media", "index", "bootindex", "unit", "bus", "serial":
		default:
			w.rest = append(w.rest, Rest{
				one.Line, "-drive " + p.Key + "=" + p.Value,
				"has no counterpart in a block node",
			})
		}
	}
	w.keepOption(one.Line, "-blockdev", "", nodes...)
	w.keepOption(one.Line, "-blockdev", "", append([]plan.Property{
		{Key: "node-name", Value: id},
		{Key: "driver", Value: format},
		{Key: "file", Value: id + "-file"},
	}, top...)...)
}

func hasNested(o plan.Option) bool {
	return slices.ContainsFunc(o.Properties, func(p plan.Property) bool { return p.Key == "file.driver" })
}

// splitNode separates a block node from the node of its file, which is written inside of it.
func (w *wish) splitNode(one Want) {
	id := one.ID()
	file := []plan.Property{{Key: "node-name", Value: id + "-file"}}
	node := one
	node.Properties = nil
	for _, p := range one.Properties {
		if key, inner := strings.CutPrefix(p.Key, "file."); inner {
			file = append(file, plan.Property{Key: key, Value: p.Value})
		} else {
			node.Properties = append(node.Properties, p)
		}
	}
	w.keepOption(one.Line, "-blockdev", "", file...)
	node.Properties = append(node.Properties, plan.Property{Key: "file", Value: id + "-file"})
	w.wants = append(w.wants, node)
}

// A medium is the content of a drive in the options of a command line.
type medium struct {
	file, format string
	readOnly     bool
	isCD         bool
	options      []int // indexes of the block nodes
}

// mediumAt returns the medium of a device.
func (w *wish) mediumAt(device int) (medium, bool) {
	m := medium{format: "raw", isCD: strings.HasSuffix(w.wants[device].Value, "-cd")}
	id, given := w.wants[device].Get("drive")
	if !given {
		return m, m.isCD
	}
	for range len(w.wants) {
		at := w.maker(qemuopt.BlockNode, id)
		if at < 0 {
			break
		}
		m.options = append(m.options, at)
		node := w.wants[at]
		for _, key := range []string{"filename", "file.filename"} {
			if name, given := node.Get(key); given {
				m.file = name
			}
		}
		for _, key := range []string{"driver", "format"} {
			if format, _ := node.Get(key); format != "" && format != "file" && format != "host_device" {
				m.format = format
			}
		}
		for _, key := range []string{"read-only", "readonly"} {
			text, _ := node.Get(key)
			if on, _ := qemuopt.Bool(text); on {
				m.readOnly = true
			}
		}
		if id, given = node.Get("file"); !given {
			break
		}
	}
	return m, len(m.options) > 0 || m.isCD
}

// placedFile returns an absolute path for a file of another computer.
func placedFile(file string) string {
	if path.IsAbs(file) {
		return path.Clean(file)
	}
	return path.Join("/images", path.Base(strings.TrimPrefix(file, "~/")))
}
