package comingfrom

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// device reads one of the devices.
func (i *incus) device(n *node) {
	switch kind := n.one("type").value(); kind {
	case "none":
		i.drop(n, "there is no such device")
	case "disk":
		i.disk(n)
	case "nic":
		i.nic(n)
	case "tpm":
		if i.config.VMType != "windows" {
			i.vm().UseTPM = true
		}
		i.drop(n.one("path"), "the guest's name of it")
		i.drop(n.one("pathrm"), "the guest's name of it")
		i.change(n, "vm.useTpm; its state is elsewhere", "copy it: docs/vm-types/from-libvirt.md#state")
	case "proxy":
		i.block(n, "a port that leads to the guest belongs to a network", "vm.network[].ports, of a network of type "+
			"masquerade or user")
	default:
		i.block(n, "a device of the host, "+kind+", is the matter of a VM type", "docs/vm-types/gpu.md")
	}
}

// disk reads the disk of the root, an image, a device or what cloud-init has.
func (i *incus) disk(n *node) {
	source, pool, path := i.given(n, "source"), i.given(n, "pool"), i.given(n, "path")
	drive := vmspec.Drive{ReadOnly: n.one("readonly").value() == "true"}
	priority, _ := strconv.Atoi(n.one("boot.priority").value())
	switch value := source.value(); {
	case value == "cloud-init:config", value == "agent:config":
		i.drop(n, "cloudInit makes such a disk itself")
		return
	case path.value() == "/":
		drive.File = filepath.Join("/var/lib/incus/storage-pools", pool.value(), "virtual-machines",
			i.vm().Name, "root.img")
		i.change(n, i.place()+": the image of a pool in a folder", "of LVM, ZFS or Ceph it is a device: "+
			"incus storage show "+pool.value()+"; copy it with qemu-img convert, as Incus removes it with the instance")
		priority = max(priority, 1)
	case pool != nil:
		i.block(n, "where a volume of a pool is isn't in this file",
			"incus storage volume export "+pool.value()+" "+value+"; then vm.drives, with file")
		return
	case strings.HasPrefix(value, "/dev/"):
		drive.Device = value
		i.keep(n, i.place()+".device")
	case strings.HasSuffix(strings.ToLower(value), ".iso") && strings.HasPrefix(value, "/"):
		drive.Type, drive.File, drive.ReadOnly = vmspec.DriveIDECD, value, false
		i.keep(n, i.place()+", a CD drive")
	case strings.HasPrefix(value, "/") && strings.Contains(filepath.Base(value), ".") && path == nil:
		drive.File = value
		if strings.HasSuffix(value, ".qcow2") {
			drive.Format = "qcow2"
		}
		i.keep(n, i.place()+".file")
	default:
		i.block(n, "a shared folder is the matter of a VM type", "the example type shares: docs/vm-types/share-folder.md")
		return
	}
	for _, child := range n.children {
		switch {
		case child.seen:
		case child.name == "size":
			i.drop(child, "the disk has its size")
		case strings.HasPrefix(child.name, "size."), strings.HasPrefix(child.name, "io."), child.name == "required",
			strings.HasPrefix(child.name, "initial."), child.name == "shift", child.name == "propagation":
			i.drop(child, "the VM type's matter, or Incus's")
		case strings.HasPrefix(child.name, "limits."):
			i.change(child, "the disk's speed has no limit", "the example type throttled: examples/vmtypes")
		}
	}
	i.vm().Drives = append(i.vm().Drives, drive)
	i.priorities = append(i.priorities, priority)
}

// nic reads a card at a bridge. A network that Incus manages is a bridge of its name, mostly.
func (i *incus) nic(n *node) {
	network, parent := i.given(n, "network"), i.given(n, "parent")
	kind := i.given(n, "nictype")
	name := cmp.Or(network.value(), parent.value())
	net := vmspec.Network{Bridge: cmp.Or(i.options.Bridges[name], name)}
	switch {
	case kind != nil && kind.value() != "bridged" || name == "":
		i.block(n, "want a card at a bridge, not "+kind.value(), "nictype: bridged and parent: a bridge of the host")
		return
	case n.one("vlan") != nil || n.one("vlan.tagged") != nil:
		i.block(n, "a tap has no VLAN", "a bridge for that VLAN")
		return
	case network != nil && i.options.Bridges[name] == "":
		i.change(network, "vm.network[].bridge: "+name+", as a network of Incus that is a bridge is called; it must be there "+
			"when the VM starts", "incus network show "+name+"; --bridge '"+name+"=BRIDGE' says another")
	}
	net.MAC = n.one("hwaddr").value()
	if volatile := i.keys.one("volatile." + n.name + ".hwaddr"); net.MAC == "" {
		net.MAC = volatile.value()
		i.keep(volatile, "vm.network[].mac")
	}
	for _, child := range n.children {
		switch {
		case child.seen:
		case child.name == "name", child.name == "host_name", child.name == "mtu",
			strings.HasPrefix(child.name, "queue."),
			child.name == "boot.priority":
			i.drop(child, "the guest's, or the VM type's matter")
		case strings.HasPrefix(child.name, "ipv"), strings.HasPrefix(child.name, "security."),
			strings.HasPrefix(child.name, "limits."):
			child.seeAll()
			i.change(child, "not carried over", "vm.network[].lease and filter: docs/networking.md#the-filter")
		}
	}
	i.keep(n, fmt.Sprintf("vm.network[%d]", len(i.vm().Network)))
	i.vm().Network = append(i.vm().Network, net)
}
