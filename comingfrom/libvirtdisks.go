package comingfrom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// disk reads a disk or a CD drive.
func (d *domain) disk(n *node) {
	device := n.get("device")
	kind := n.attribute("type")
	switch {
	case device != "" && device != "disk" && device != "cdrom":
		d.block(n, "a "+device+" is a VM type's matter", "a type of your own: docs/vm-types/add-device.md")
		return
	case n.one("encryption") != nil, n.one("source").one("encryption") != nil:
		d.block(n, "an encrypted image can't be opened", "qemu-img convert makes a copy that isn't encrypted")
		return
	}
	drive := vmspec.Drive{ReadOnly: device != "cdrom" && n.one("readonly") != nil}
	if device == "cdrom" {
		drive.Type = vmspec.DriveIDECD
	}
	if !d.source(n, kind.value(), &drive) {
		return
	}
	if !d.driver(n, &drive) {
		return
	}
	d.bus(n, &drive)
	d.tuning(n)
	d.serial(n.one("serial"), &drive)
	if drive.ReadOnly && d.pc && n.one("target").get("bus") != "virtio" {
		d.block(n, "an IDE disk can't be read-only", "<target bus='virtio'>, if the guest has a driver")
		return
	}
	d.vm().Drives = append(d.vm().Drives, drive)
	d.disks = append(d.disks, n)
}

// source reads where the data are.
func (d *domain) source(n *node, kind string, drive *vmspec.Drive) bool {
	source := n.one("source")
	source.get("index")
	d.drop(source.attribute("startupPolicy"), "the image must be there at the start")
	for _, name := range []string{"seclabel", "slices", "reservations", "privateData"} {
		if sub := source.one(name); name == "seclabel" {
			d.drop(sub, "the service's matter")
		} else if sub != nil {
			d.block(n, "a disk with <"+name+"> is a VM type's matter", "docs/vm-types/add-device.md")
			return false
		}
	}
	isCD := drive.Type == vmspec.DriveIDECD
	file, dev := source.get("file"), source.get("dev")
	switch {
	case isCD && (source == nil || kind == "file" && file == "" || kind == "block" && dev == ""): // no medium
	case kind == "file" && strings.HasPrefix(file, "/"):
		drive.File = file
	case kind == "block" && isCD:
		d.block(n, "a CD drive of the host can't be passed on", "an image of the CD: <disk type='file'>")
		return false
	case kind == "block" && strings.HasPrefix(dev, "/"):
		drive.Device = dev
	case kind == "network":
		return d.networkDisk(n, source, drive)
	case kind == "volume":
		d.block(n, "storage pools are not known here",
			"<disk type='file'> with the path of: virsh vol-path --pool "+source.get("pool")+" "+source.get("volume"))
		return false
	default:
		d.block(n, "a disk of type "+kind+" with such a source is a VM type's matter", "docs/vm-types/add-device.md")
		return false
	}
	return true
}

// networkDisk reads a disk of a server: a CD of a web server, or a disk that is attached when the guest runs.
func (d *domain) networkDisk(n, source *node, drive *vmspec.Drive) bool {
	protocol, host, name := source.get("protocol"), source.one("host"), source.get("name")
	address, port := host.get("name"), host.get("port")
	isCD := drive.Type == vmspec.DriveIDECD
	switch {
	case isCD && (protocol == "http" || protocol == "https") && address != "" && source.one("auth") == nil &&
		source.one("cookies") == nil:
		if port != "" {
			address += ":" + port
		}
		drive.File = protocol + "://" + address + "/" + strings.TrimPrefix(name, "/")
		if query := source.get("query"); query != "" {
			drive.File += "?" + query
		}
		return true
	case !isCD && protocol == "nbd" && address != "" && host.get("transport") != "unix" && source.get("tls") != "yes" &&
		n.one("boot") == nil:
		number, err := strconv.Atoi(port)
		if port != "" && err != nil {
			break
		}
		host.get("transport")
		d.change(source, "vm.drives[].nbd: the disk comes when the guest runs, and can't be booted from",
			"docs/live-changes.md#disks-of-nbd-servers")
		drive.NBD = &vmspec.NBD{Host: address, Port: number, Export: name}
		return true
	}
	d.block(n, "a disk of a server, by "+protocol+", is a VM type's matter",
		"a type of your own with the -blockdev for it (docs/vm-types/add-device.md), or <disk type='block'> of a device that "+
			"the host has mapped")
	return false
}

// driver reads the format, and leaves caches and threads to the VM type.
func (d *domain) driver(n *node, drive *vmspec.Drive) bool {
	driver := n.one("driver")
	driver.get("name")
	switch format := driver.attribute("type"); {
	case format == nil || format.text == "raw":
	case drive.Type == vmspec.DriveIDECD || drive.NBD != nil:
		d.block(n, "want raw, not "+format.text, "qemu-img convert -O raw makes such an image")
		return false
	case format.text == "qcow2":
		drive.Format = "qcow2"
	default:
		d.block(n, "an image of the format "+format.text+" can't be used",
			"qemu-img convert -O qcow2 makes one that can, for <source> and <driver type='qcow2'>")
		return false
	}
	if driver == nil {
		return true
	}
	d.driverParts(driver)
	return true
}

// driverParts reads how data are written, and errors reported.
func (d *domain) driverParts(driver *node) {
	for _, a := range driver.attributes {
		switch a.name {
		case "name", "type":
		case "cache", "io", "discard", "detect_zeroes", "iothread", "queues", "queue_size", "ioeventfd", "event_idx",
			"discard_no_unref", "metadata_cache", "packed", "iommu", "ats", "page_per_vq":
			d.drop(a, a.name+" is the VM type's matter")
		case "error_policy", "rerror_policy":
			if a.text == "stop" {
				d.keep(a, "always so")
			} else {
				d.change(a, "a guest whose disk has an error is stopped: docs/faults.md", "")
			}
			a.seeAll()
		case "copy_on_read":
			d.change(a, "data stay where they are read from", "")
		}
	}
	for _, sub := range driver.children {
		d.drop(sub, sub.name+" is the VM type's matter")
	}
}

// bus reads what the disk is attached to.
func (d *domain) bus(n *node, drive *vmspec.Drive) {
	target := n.one("target")
	d.drop(target.attribute("dev"), "disks are named in the order of vm.drives")
	for _, name := range []string{"tray", "removable", "rotation_rate"} {
		d.drop(target.attribute(name), "as QEMU has it")
	}
	bus := target.attribute("bus")
	isCD := drive.Type == vmspec.DriveIDECD
	switch value := bus.value(); {
	case bus == nil:
	case drive.NBD != nil:
		d.change(bus, "virtio", "")
	case isCD && value == "scsi":
		drive.Bus = "scsi"
		d.keep(bus, "the drive's bus")
	case isCD && (value == "ide" || value == "sata"):
		d.keep(bus, "the drive's bus is that of the machine")
	case isCD:
		d.change(bus, "ide", "")
	case d.diskBus() == value:
		d.keep(bus, "the VM type "+d.typeName())
	default:
		d.change(bus, fmt.Sprintf("%s becomes %s: the guest must find its disk by UUID or label, and needs a driver", value,
			d.diskBus()), "docs/vm-types/stock-types.md")
	}
}

// diskBus returns what the disks of the VM type are attached to.
func (d *domain) diskBus() string {
	chosen, _ := d.vm().Options["diskBus"].(string)
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

// chooseBus sets the VM type's option for what disks are attached to.
func (d *domain) chooseBus(devices *node) {
	count := diskBuses(devices)
	switch {
	case d.pc && count["virtio"] > 0:
		d.option("diskBus", "virtio")
	case d.windows && count["sata"] > 0 && count["virtio"] == 0:
		d.option("diskBus", "sata")
	}
}

// diskBuses returns how many disks are attached to what.
func diskBuses(devices *node) map[string]int {
	count := map[string]int{}
	for _, n := range devices.all("disk") {
		if kind := n.get("device"); kind == "" || kind == "disk" {
			count[n.one("target").get("bus")]++
		}
	}
	return count
}

// serial reads the number by which the guest knows the drive.
func (d *domain) serial(n *node, drive *vmspec.Drive) {
	if n == nil {
		return
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if text := n.value(); text != "" && len(text) <= vmspec.LongestSerial && strings.Trim(text, letters) == "" {
		drive.Serial = text
		d.keep(n, "the drive's serial")
		return
	}
	d.change(n, "not a serial number that a drive can have; it gets the name of its image", "")
}

// tuning reads what is lost of a disk.
func (d *domain) tuning(n *node) {
	for _, child := range n.children {
		switch child.name {
		case "address", "backingStore":
			d.drop(child, map[bool]string{
				true: "the image knows its base itself", false: "the VM type gives each device its place",
			}[child.name == "backingStore"])
		case "iotune":
			child.seeAll()
			d.change(child, "the disk's speed has no limit", "the example type throttled: examples/vmtypes")
		case "wwn", "vendor", "product", "geometry":
			child.seeAll()
			d.change(child, "as QEMU has it", "")
		case "readonly":
			d.keep(child, "the drive's readOnly, or the nature of a CD")
		case "shareable", "transient":
			d.block(child, "a disk belongs to one VM, and keeps what is written to it", "")
		case "blockio":
			if size := child.get("logical_block_size"); size != "" && size != "512" {
				d.block(child, "sectors of "+size+" bytes are a VM type's matter", "")
			}
			d.drop(child, "sectors have 512 bytes")
		}
	}
}

// bootOrder reads what is booted from, in which order: of each kind the first device, or what the devices say.
func (d *domain) bootOrder(devices []*node) {
	drives := d.vm().Drives
	isBootable := func(i int) bool { return drives[i].Bootindex == nil && drives[i].NBD == nil }
	first := func(kind vmspec.DriveType) int {
		return slices.IndexFunc(drives, func(drive vmspec.Drive) bool { return drive.Type == kind })
	}
	isOrdered := false
	for i, n := range d.disks {
		order := n.one("boot")
		if order == nil {
			continue
		}
		d.drop(order.attribute("loadparm"), "for another machine")
		number := d.count(order.attributeOr("order"), fmt.Sprintf("vm.drives[%d].bootindex", i))
		order.see()
		drives[i].Bootindex, isOrdered = &number, true
	}
	for at, dev := range devices {
		name, i := dev.get("dev"), -1
		switch name {
		case "hd":
			i = first("")
		case "cdrom":
			i = first(vmspec.DriveIDECD)
		}
		switch number := at + 1; {
		case i >= 0 && isBootable(i):
			drives[i].Bootindex = &number
			d.keep(dev, fmt.Sprintf("vm.drives[%d].bootindex", i))
		case name == "network":
			d.change(dev, "network cards have no place in the boot order; the firmware tries them last", "")
		default:
			d.drop(dev, "there is no such device, or it has a place")
		}
	}
	if i := first(""); len(devices) == 0 && !isOrdered && i >= 0 && isBootable(i) && d.vm().Kernel == nil {
		number := 1
		drives[i].Bootindex = &number
	}
}

// attributeOr returns an attribute, or the part itself.
func (n *node) attributeOr(name string) *node {
	if a := n.attribute(name); a != nil {
		return a
	}
	return n
}
