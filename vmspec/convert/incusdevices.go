package convert

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// readDevice reads a device.
func (i *incus) readDevice(n *node) {
	switch kind := n.firstChild("type").textValue(); kind {
	case "none":
		i.dropPart(n, "there is no such device")
	case "disk":
		i.readDisk(n)
	case "nic":
		i.readNIC(n)
	case "tpm":
		if i.config.VMType != "windows" {
			i.vmSection().UseTPM = true
		}
		i.dropPart(n.firstChild("path"), "the guest's name of it")
		i.dropPart(n.firstChild("pathrm"), "the guest's name of it")
		i.changePart(n, "vm.useTpm; its state is elsewhere", "copy it: docs/vm-types/from-libvirt.md#state")
	case "proxy":
		i.blockPart(n, "a port that leads to the guest belongs to a network", "vm.network[].ports, of a network of type "+
			"masquerade or user")
	default:
		i.blockPart(n, "a device of the host, "+kind+", is the matter of a VM type", "docs/vm-types/gpu.md")
	}
}

// readDisk reads the root disk, an image, a device, or a disk for cloud-init.
func (i *incus) readDisk(n *node) {
	source, pool, path := i.givenPart(n, "source"), i.givenPart(n, "pool"), i.givenPart(n, "path")
	drive := vmspec.Drive{ReadOnly: n.firstChild("readonly").textValue() == "true"}
	priority, _ := strconv.Atoi(n.firstChild("boot.priority").textValue())
	switch value := source.textValue(); {
	case value == "cloud-init:config", value == "agent:config":
		i.dropPart(n, "cloudInit makes such a disk itself")
		return
	case path.textValue() == "/":
		drive.File = filepath.Join("/var/lib/incus/storage-pools", pool.textValue(), "virtual-machines",
			i.vmSection().Name, "root.img")
		i.changePart(n, i.nextDrivePath()+": the image of a pool in a folder", "of LVM, ZFS or Ceph it is a device: "+
			"incus storage show "+pool.textValue()+"; copy it with qemu-img convert, as Incus removes it with the instance")
		priority = max(priority, 1)
	case pool != nil:
		i.blockPart(n, "where a volume of a pool is isn't in this file",
			"incus storage volume export "+pool.textValue()+" "+value+"; then vm.drives, with file")
		return
	case strings.HasPrefix(value, "/dev/"):
		drive.Device = value
		i.keepPart(n, i.nextDrivePath()+".device")
	case strings.HasSuffix(strings.ToLower(value), ".iso") && strings.HasPrefix(value, "/"):
		drive.Type, drive.File, drive.ReadOnly = vmspec.DriveIDECD, value, false
		i.keepPart(n, i.nextDrivePath()+", a CD drive")
	case strings.HasPrefix(value, "/") && strings.Contains(filepath.Base(value), ".") && path == nil:
		drive.File = value
		if strings.HasSuffix(value, ".qcow2") {
			drive.Format = "qcow2"
		}
		i.keepPart(n, i.nextDrivePath()+".file")
	default:
		i.blockPart(n, "a shared folder is the matter of a VM type", "the example type shares: "+
			"docs/vm-types/share-folder.md")
		return
	}
	for _, child := range n.children {
		switch {
		case child.seen:
		case child.name == "size":
			i.dropPart(child, "the disk has its size")
		case strings.HasPrefix(child.name, "size."), strings.HasPrefix(child.name, "io."), child.name == "required",
			strings.HasPrefix(child.name, "initial."), child.name == "shift", child.name == "propagation":
			i.dropPart(child, "the VM type's matter, or Incus's")
		case strings.HasPrefix(child.name, "limits."):
			i.changePart(child, "the disk's speed has no limit", "the example type throttled: examples/vmtypes")
		}
	}
	i.vmSection().Drives = append(i.vmSection().Drives, drive)
	i.priorities = append(i.priorities, priority)
}

// readNIC reads a card on a bridge. A network that Incus manages is usually a bridge with the same name.
func (i *incus) readNIC(n *node) {
	network, parent := i.givenPart(n, "network"), i.givenPart(n, "parent")
	kind := i.givenPart(n, "nictype")
	name := cmp.Or(network.textValue(), parent.textValue())
	net := vmspec.Network{Bridge: cmp.Or(i.options.Bridges[name], name)}
	switch {
	case kind != nil && kind.textValue() != "bridged" || name == "":
		i.blockPart(n, "must be a card at a bridge, not "+kind.textValue(),
			"nictype: bridged and parent: a bridge of the host")
		return
	case n.firstChild("vlan") != nil || n.firstChild("vlan.tagged") != nil:
		i.blockPart(n, "a tap has no VLAN", "a bridge for that VLAN")
		return
	case network != nil && i.options.Bridges[name] == "":
		i.changePart(network, "vm.network[].bridge: "+name+", the name of an Incus network that is a bridge; it must exist "+
			"when the VM starts", "incus network show "+name+"; --bridge '"+name+"=BRIDGE' names another bridge")
	}
	net.MAC = n.firstChild("hwaddr").textValue()
	if volatile := i.keys.firstChild("volatile." + n.name + ".hwaddr"); net.MAC == "" {
		net.MAC = volatile.textValue()
		i.keepPart(volatile, "vm.network[].mac")
	}
	for _, child := range n.children {
		switch {
		case child.seen:
		case child.name == "name", child.name == "host_name", child.name == "mtu",
			strings.HasPrefix(child.name, "queue."),
			child.name == "boot.priority":
			i.dropPart(child, "the guest's, or the VM type's matter")
		case strings.HasPrefix(child.name, "ipv"), strings.HasPrefix(child.name, "security."),
			strings.HasPrefix(child.name, "limits."):
			child.seeAll()
			i.changePart(child, "not carried over", "vm.network[].lease and filter: "+
				"docs/reference/networking.md#the-filter")
		}
	}
	i.keepPart(n, fmt.Sprintf("vm.network[%d]", len(i.vmSection().Network)))
	i.vmSection().Network = append(i.vmSection().Network, net)
}
