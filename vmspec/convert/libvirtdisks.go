package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// readDisk reads a disk or a CD drive.
func (d *domain) readDisk(n *node) {
	device := n.attributeValue("device")
	kind := n.attributeNode("type")
	switch {
	case device != "" && device != "disk" && device != "cdrom":
		d.blockPart(n, "a "+device+" is a VM type's matter", "your own type: docs/vm-types/add-device.md")
		return
	case n.firstChild("encryption") != nil, n.firstChild("source").firstChild("encryption") != nil:
		d.blockPart(n, "an encrypted image can't be opened", "qemu-img convert creates a copy that isn't encrypted")
		return
	}
	drive := vmspec.Drive{ReadOnly: device != "cdrom" && n.firstChild("readonly") != nil}
	if device == "cdrom" {
		drive.Type = vmspec.DriveIDECD
	}
	if !d.readSource(n, kind.textValue(), &drive) {
		return
	}
	if !d.readDriver(n, &drive) {
		return
	}
	d.readBus(n, &drive)
	d.readTuning(n, &drive)
	d.readSerial(n.firstChild("serial"), &drive)
	if drive.ReadOnly && d.pc && n.firstChild("target").attributeValue("bus") != "virtio" {
		d.blockPart(n, "an IDE disk can't be read-only", "<target bus='virtio'>, if the guest has a driver")
		return
	}
	d.vmSection().Drives = append(d.vmSection().Drives, drive)
	d.disks = append(d.disks, n)
}

// readSource reads the place of the data.
func (d *domain) readSource(n *node, kind string, drive *vmspec.Drive) bool {
	source := n.firstChild("source")
	source.attributeValue("index")
	d.dropPart(source.attributeNode("startupPolicy"), "the image must exist at the start")
	for _, name := range []string{"seclabel", "slices", "reservations", "privateData"} {
		if sub := source.firstChild(name); name == "seclabel" {
			d.dropPart(sub, "the service's matter")
		} else if sub != nil {
			d.blockPart(n, "a disk with <"+name+"> is a VM type's matter", "docs/vm-types/add-device.md")
			return false
		}
	}
	isCD := drive.Type == vmspec.DriveIDECD
	file, dev := source.attributeValue("file"), source.attributeValue("dev")
	switch {
	case isCD && (source == nil || kind == "file" && file == "" || kind == "block" && dev == ""): // no medium
	case kind == "file" && strings.HasPrefix(file, "/"):
		drive.File = file
	case kind == "block" && isCD:
		d.blockPart(n, "a CD drive of the host can't be passed on", "an image of the CD: <disk type='file'>")
		return false
	case kind == "block" && strings.HasPrefix(dev, "/"):
		drive.Device = dev
	case kind == "network":
		return d.networkDisk(n, source, drive)
	case kind == "volume":
		d.blockPart(n, "storage pools are not known here",
			"<disk type='file'> with the path of: virsh vol-path --pool "+source.attributeValue(
				"pool")+" "+source.attributeValue("volume"))
		return false
	default:
		d.blockPart(n, "a disk of type "+kind+" with such a source is a VM type's matter",
			"docs/vm-types/add-device.md")
		return false
	}
	return true
}

// networkDisk reads a disk on a server: a CD on a web server, or an NBD disk, which is attached when the guest is
// running.
func (d *domain) networkDisk(n, source *node, drive *vmspec.Drive) bool {
	protocol, host, name := source.attributeValue("protocol"), source.firstChild("host"), source.attributeValue("name")
	address, port := host.attributeValue("name"), host.attributeValue("port")
	isCD := drive.Type == vmspec.DriveIDECD
	switch {
	case isCD && (protocol == "http" || protocol == "https") && address != "" && source.firstChild("auth") == nil &&
		source.firstChild("cookies") == nil:
		if port != "" {
			address += ":" + port
		}
		drive.File = protocol + "://" + address + "/" + strings.TrimPrefix(name, "/")
		if query := source.attributeValue("query"); query != "" {
			drive.File += "?" + query
		}
		return true
	case !isCD && protocol == "nbd" && address != "" && host.attributeValue("transport") != "unix" &&
		source.attributeValue("tls") != "yes" &&
		n.firstChild("boot") == nil:
		number, err := strconv.Atoi(port)
		if port != "" && err != nil {
			break
		}
		host.attributeValue("transport")
		d.changePart(source, "vm.drives[].nbd: the disk comes when the guest runs, and can't be booted from",
			"docs/tasks/nbd.md")
		drive.NBD = &vmspec.NBD{Host: address, Port: number, Export: name}
		return true
	}
	d.blockPart(n, "a disk of a server, by "+protocol+", is a VM type's matter",
		"your own type with the -blockdev for it (docs/vm-types/add-device.md), or <disk type='block'> of a device that "+
			"the host has mapped")
	return false
}

// readDriver reads the format, and how the disk is tuned.
func (d *domain) readDriver(n *node, drive *vmspec.Drive) bool {
	driver := n.firstChild("driver")
	driver.attributeValue("name")
	switch format := driver.attributeNode("type"); {
	case format == nil || format.text == "raw":
	case drive.Type == vmspec.DriveIDECD || drive.NBD != nil:
		d.blockPart(n, "must be raw, not "+format.text, "qemu-img convert -O raw makes such an image")
		return false
	case format.text == "qcow2":
		drive.Format = "qcow2"
	default:
		d.blockPart(n, "an image of the format "+format.text+" can't be used",
			"qemu-img convert -O qcow2 makes one that can, for <source> and <driver type='qcow2'>")
		return false
	}
	if driver == nil {
		return true
	}
	d.driverParts(driver, drive)
	return true
}

// driverParts reads how data is written and how errors are reported.
func (d *domain) driverParts(driver *node, drive *vmspec.Drive) {
	for _, a := range driver.attributes {
		switch a.name {
		case "name", "type":
		case "cache", "io", "discard", "detect_zeroes", "iothread":
			d.tuneDriver(a, drive)
		case "queues", "queue_size", "ioeventfd", "event_idx",
			"discard_no_unref", "metadata_cache", "packed", "iommu", "ats", "page_per_vq":
			d.dropPart(a, a.name+" is the VM type's matter")
		case "error_policy", "rerror_policy":
			if a.text == "stop" {
				d.keepPart(a, "always so")
			} else {
				d.changePart(a, "the guest is stopped when its disk has an error: docs/concepts/faults.md", "")
			}
			a.seeAll()
		case "copy_on_read":
			d.changePart(a, "data stay where they are read from", "")
		}
	}
	for _, sub := range driver.children {
		d.dropPart(sub, sub.name+" is the VM type's matter")
	}
}

// readBus reads the bus of a disk.
func (d *domain) readBus(n *node, drive *vmspec.Drive) {
	target := n.firstChild("target")
	d.dropPart(target.attributeNode("dev"), "disks are named in the order of vm.drives")
	d.readRotation(target.attributeNode("rotation_rate"), drive)
	for _, name := range []string{"tray", "removable"} {
		d.dropPart(target.attributeNode(name), "QEMU's default")
	}
	bus := target.attributeNode("bus")
	isCD := drive.Type == vmspec.DriveIDECD
	switch value := bus.textValue(); {
	case bus == nil:
	case drive.NBD != nil:
		d.changePart(bus, "virtio", "")
	case isCD && value == "scsi":
		drive.Bus = "scsi"
		d.keepPart(bus, "the drive's bus")
	case isCD && (value == "ide" || value == "sata"):
		d.keepPart(bus, "the machine determines the drive's bus")
	case isCD:
		d.changePart(bus, "ide", "")
	case d.diskBus() == value:
		d.keepPart(bus, "the VM type "+d.typeName())
	default:
		d.changePart(bus, fmt.Sprintf("%s becomes %s: the guest must find its disk by UUID or label, and needs a driver", value,
			d.diskBus()), "docs/vm-types/stock-types.md")
	}
}

// diskBus returns the bus of the VM type's disks.
func (d *domain) diskBus() string {
	chosen, _ := d.vmSection().Options["diskBus"].(string)
	switch {
	case chosen != "":
		return chosen
	case d.pc:
		return "ide"
	case d.config.VMType == "cloud":
		return "scsi"
	}
	return "virtio"
}

// chooseBus sets the VM type's option for the bus of the disks.
func (d *domain) chooseBus(devices *node) {
	count := diskBuses(devices)
	switch {
	case d.pc && count["virtio"] > 0:
		d.setOption("diskBus", "virtio")
	case d.windows && count["sata"] > 0 && count["virtio"] == 0:
		d.setOption("diskBus", "sata")
	}
}

// diskBuses returns the number of disks on each bus.
func diskBuses(devices *node) map[string]int {
	count := map[string]int{}
	for _, n := range devices.takeChildren("disk") {
		if kind := n.attributeValue("device"); kind == "" || kind == "disk" {
			count[n.firstChild("target").attributeValue("bus")]++
		}
	}
	return count
}

// readSerial reads the drive's serial number in the guest.
func (d *domain) readSerial(n *node, drive *vmspec.Drive) {
	if n == nil {
		return
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if text := n.textValue(); text != "" && len(text) <= vmspec.LongestSerial && strings.Trim(text, letters) == "" {
		drive.Serial = text
		d.keepPart(n, "the drive's serial")
		return
	}
	d.changePart(n, "not a serial number that a drive can have; it gets the name of its image", "")
}

// readTuning reads the limits and the sectors of a disk, and reports settings that are lost.
func (d *domain) readTuning(n *node, drive *vmspec.Drive) {
	for _, child := range n.children {
		switch child.name {
		case "address", "backingStore":
			d.dropPart(child, map[bool]string{
				true: "the image knows its base itself", false: "the VM type gives each device its place",
			}[child.name == "backingStore"])
		case "iotune":
			d.readLimits(child, drive)
		case "wwn", "vendor", "product", "geometry":
			child.seeAll()
			d.changePart(child, "QEMU's default", "")
		case "readonly":
			d.keepPart(child, "the drive's readOnly, or the nature of a CD")
		case "shareable", "transient":
			d.blockPart(child, "a disk belongs to one VM, and keeps what is written to it", "")
		case "blockio":
			d.readSectors(child, drive)
		}
	}
}

// bootOrder reads the boot order: either the order of the devices, or the first device of each kind.
func (d *domain) bootOrder(devices []*node) {
	drives := d.vmSection().Drives
	isBootable := func(i int) bool { return drives[i].Bootindex == nil && drives[i].NBD == nil }
	first := func(kind vmspec.DriveType) int {
		return slices.IndexFunc(drives, func(drive vmspec.Drive) bool { return drive.Type == kind })
	}
	isOrdered := false
	for i, n := range d.disks {
		order := n.firstChild("boot")
		if order == nil {
			continue
		}
		d.dropPart(order.attributeNode("loadparm"), "for another machine")
		number := d.readCount(order.attributeOr("order"), fmt.Sprintf("vm.drives[%d].bootindex", i))
		order.markSeen()
		drives[i].Bootindex, isOrdered = &number, true
	}
	for at, dev := range devices {
		name, i := dev.attributeValue("dev"), -1
		switch name {
		case "hd":
			i = first("")
		case "cdrom":
			i = first(vmspec.DriveIDECD)
		}
		switch number := at + 1; {
		case i >= 0 && isBootable(i):
			drives[i].Bootindex = &number
			d.keepPart(dev, fmt.Sprintf("vm.drives[%d].bootindex", i))
		case name == "network":
			d.changePart(dev, "network cards have no place in the boot order; the firmware tries them last", "")
		default:
			d.dropPart(dev, "there is no such device, or it has a place")
		}
	}
	if i := first(""); len(devices) == 0 && !isOrdered && i >= 0 && isBootable(i) && d.vmSection().Kernel == nil {
		number := 1
		drives[i].Bootindex = &number
	}
}

// attributeOr returns an attribute, or the node itself.
func (n *node) attributeOr(name string) *node {
	if a := n.attributeNode(name); a != nil {
		return a
	}
	return n
}
