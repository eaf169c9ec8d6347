package convert

import (
	"slices"
	"strconv"

	"vmop/vmspec"
)

// isTunable reports whether a drive has the fields for tuning.
func isTunable(drive *vmspec.Drive) bool { return drive.Type != vmspec.DriveIDECD }

// tuneDriver reads an attribute of <driver> that tunes a disk.
func (d *domain) tuneDriver(a *node, drive *vmspec.Drive) {
	fields := map[string]struct {
		key string
		to  *string
	}{
		"cache": {"cache", &drive.Cache}, "io": {"aio", &drive.AIO}, "discard": {"discard", &drive.Discard},
		"detect_zeroes": {"detectZeroes", &drive.DetectZeroes},
	}
	path := d.nextDrive() + "."
	ofServer := drive.NBD != nil && a.name != "discard" && a.name != "detect_zeroes"
	switch field, has := fields[a.name]; {
	case !isTunable(drive), ofServer:
		d.dropPart(a, "the VM type's matter for such a drive")
	case has && slices.Contains(vmspec.Choices("vm.drives[]."+field.key), a.text):
		*field.to = a.text
		d.keepPart(a, path+field.key)
	case a.name == "iothread" && d.diskBus() == "virtio":
		drive.IOThread = vmspec.IOThread("thread" + a.text)
		d.keepPart(a, path+"iothread")
	default:
		d.dropPart(a, a.name+" is the VM type's matter")
	}
}

// nextDrive returns the path of the next drive.
func (d *domain) nextDrive() string {
	return "vm.drives[" + strconv.Itoa(len(d.vmSection().Drives)) + "]"
}

// readLimits reads the limits of a disk's speed. Bursts are lost.
func (d *domain) readLimits(n *node, drive *vmspec.Drive) {
	if !isTunable(drive) {
		n.seeAll()
		d.changePart(n, "a CD drive's speed has no limit", "")
		return
	}
	limits := &vmspec.DiskLimits{}
	counts := map[string]*int{
		"total_iops_sec": &limits.IOPS, "read_iops_sec": &limits.IOPSRead, "write_iops_sec": &limits.IOPSWrite,
	}
	sizes := map[string]*vmspec.Bytes{
		"total_bytes_sec": &limits.Bytes, "read_bytes_sec": &limits.BytesRead, "write_bytes_sec": &limits.BytesWrite,
	}
	for _, child := range n.children {
		number, err := strconv.ParseInt(child.textValue(), 10, 64)
		switch {
		case err == nil && counts[child.name] != nil:
			*counts[child.name] = int(number)
			d.keepPart(child, d.nextDrive()+".limits")
		case err == nil && sizes[child.name] != nil:
			*sizes[child.name] = vmspec.Bytes(number)
			d.keepPart(child, d.nextDrive()+".limits")
		default:
			child.seeAll()
			d.changePart(child, "the disk has limits without bursts and groups", "docs/tasks/tune-disks.md")
		}
	}
	if *limits != (vmspec.DiskLimits{}) {
		drive.Limits = limits
	}
	n.markSeen()
}

// readSectors reads the sizes of a disk's sectors. IDE and SATA disks have sectors of 512 bytes.
func (d *domain) readSectors(n *node, drive *vmspec.Drive) {
	logical, physical := n.attributeNode("logical_block_size"), n.attributeNode("physical_block_size")
	hasLarge := d.diskBus() == "virtio" || d.diskBus() == "scsi"
	for _, s := range []struct {
		a     *node
		key   string
		to    *vmspec.Bytes
		fixed bool
	}{
		{logical, "logicalBlockSize", &drive.LogicalBlockSize, !hasLarge},
		{physical, "physicalBlockSize", &drive.PhysicalBlockSize, false},
	} {
		size, err := strconv.Atoi(s.a.textValue())
		switch {
		case s.a == nil || isTunable(drive) && size == 512:
			d.dropPart(s.a, "sectors have 512 bytes")
		case err != nil || s.fixed || !isTunable(drive):
			d.blockPart(n, "sectors of "+s.a.text+" bytes don't exist on "+d.diskBus(), "")
		default:
			*s.to = vmspec.Bytes(size)
			d.keepPart(s.a, d.nextDrive()+"."+s.key)
		}
	}
	n.markSeen()
	for _, a := range n.attributes {
		if !a.seen {
			d.dropPart(a, "QEMU's default")
		}
	}
}

// readRotation reads a disk's rotation rate, which virtio disks lack.
func (d *domain) readRotation(a *node, drive *vmspec.Drive) {
	rate, err := strconv.Atoi(a.textValue())
	if a == nil || err != nil || rate == 0 || !isTunable(drive) || d.diskBus() == "virtio" {
		d.dropPart(a, "a virtio disk has none")
		return
	}
	drive.RotationRate = rate
	d.keepPart(a, d.nextDrive()+".rotationRate")
}
