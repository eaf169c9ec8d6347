package convert

import (
	"fmt"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// readNetwork reads an interface.
func (d *domain) readNetwork(n *node) {
	kind, source := n.attributeNode("type"), n.firstChild("source")
	var net vmspec.Network
	switch kind.textValue() {
	case "bridge":
		if port := n.firstChild("virtualport"); port != nil {
			d.blockPart(n, "a port of "+port.attributeValue("type")+" can't be created",
				"a bridge of Linux: <interface type='bridge'>")
			return
		}
		net.Bridge = source.attributeValue("bridge")
		d.keepPart(source, "vm.network[].bridge")
	case "network":
		if !d.namedNetwork(n, source, &net) {
			return
		}
	case "user":
		net.Type = vmspec.NetworkUser
		if backend := n.firstChild("backend"); backend.attributeValue("type") == "passt" {
			net.Type = vmspec.NetworkPasst
			d.dropPart(backend.attributeNode("logFile"), "passt's log is the runner's")
			d.keepPart(backend, "vm.network[].type: passt")
		}
		d.keepPart(kind, "vm.network[].type: "+string(net.Type))
		d.readPorts(n, &net)
	case "ethernet":
		d.blockPart(n, "an existing tap can't be used", "use a bridge: <interface type='bridge'>")
		return
	case "direct":
		d.blockPart(n, "macvtap can't be used", "use a bridge that contains "+source.attributeValue("dev")+": "+
			"docs/reference/networking.md")
		return
	default:
		d.blockPart(n, "an interface of type "+kind.textValue()+" is a VM type's matter", "docs/vm-types/add-device.md")
		return
	}
	net.MAC = n.firstChild("mac").attributeValue("address")
	for _, name := range []string{"type", "check", "currentAddress"} {
		n.firstChild("mac").attributeValue(name)
	}
	d.keepPart(n.firstChild("mac"), "vm.network[].mac")
	d.readCard(n.firstChild("model"), n, &net)
	d.readTap(n, &net)
	d.keepPart(n, fmt.Sprintf("vm.network[%d]", len(d.vmSection().Network)))
	d.vmSection().Network = append(d.vmSection().Network, net)
}

// namedNetwork reads a network of libvirt, which is defined in another file.
func (d *domain) namedNetwork(n, source *node, net *vmspec.Network) bool {
	name := source.attributeValue("network")
	bridge := source.attributeValue("bridge") // only a running domain has it
	if wanted := d.options.Bridges[name]; wanted != "" {
		bridge = wanted
	}
	d.dropPart(source.attributeNode("portid"), "libvirt's matter")
	d.dropPart(source.attributeNode("portgroup"), "libvirt's matter")
	switch {
	case bridge != "":
		net.Bridge = bridge
		d.changePart(source, "vm.network[].bridge: "+bridge+
			", which must exist when the VM starts: libvirt creates it", "")
	case name == "default":
		net.Type = vmspec.NetworkMasquerade
		d.changePart(source, "vm.network[].type: masquerade, instead of libvirt's NAT: the guest gets another address, and "+
			"doesn't see libvirt's other guests", "--bridge default=virbr0 leaves it in libvirt's network; "+
			"docs/reference/networking.md#masquerade has the rights that it needs")
	default:
		d.blockPart(n, "what the network "+name+" is isn't in this file",
			"virsh net-info "+name+" names its bridge: --bridge '"+name+"=BRIDGE'")
		return false
	}
	return true
}

// readCard reads the model of the card. With the VM type pc, an option sets the virtio model.
func (d *domain) readCard(model, n *node, net *vmspec.Network) {
	kind := model.attributeNode("type")
	switch value := kind.textValue(); {
	case kind == nil:
		d.changePart(n, "no model is named; the card is the default of the VM type "+d.typeName(), "")
	case value == "virtio":
		if d.pc {
			d.setOption("networkCard", "virtio-net-pci")
		}
		d.keepPart(kind, "virtio-net-pci")
	case value == "virtio-transitional", value == "virtio-non-transitional":
		net.Device = strings.Replace(value, "virtio", "virtio-net-pci", 1)
		d.keepPart(kind, "vm.network[].device")
	case value == "e1000", value == "e1000e", value == "rtl8139", value == "pcnet", value == "ne2k_pci", value == "igb",
		value == "vmxnet3", value == "usb-net":
		net.Device = value
		d.keepPart(kind, "vm.network[].device")
	default:
		d.blockPart(n, "a card "+value+" is not known here", "")
	}
}

// readTap reads the name on the host, and reports settings of an interface that are lost.
func (d *domain) readTap(n *node, net *vmspec.Network) {
	if target := n.firstChild("target").attributeNode("dev"); target != nil {
		isOwn := !strings.HasPrefix(target.text, "vnet") && net.Type != vmspec.NetworkUser &&
			net.Type != vmspec.NetworkPasst
		if isOwn && len(target.text) < 16 {
			net.Ifname = target.text
			d.keepPart(target, "vm.network[].ifname")
		} else {
			d.dropPart(target, "the runner names the tap")
		}
	}
	d.dropPart(n.firstChild("target").attributeNode("managed"), "the runner creates the tap")
	for _, child := range n.children {
		switch child.name {
		case "address", "rom", "acpi", "guest":
			d.dropPart(child, "the VM type gives each device its place")
		case "driver":
			d.dropPart(child, "the VM type's matter; networks(vm, host, queues = …) has queues: docs/vm-types/library.md")
		case "boot":
			child.seeAll()
			d.changePart(child, "network cards have no place in the boot order; the firmware tries them last", "")
		case "filterref":
			child.seeAll()
			d.changePart(child, "the filter of libvirt is gone",
				"vm.network[].lease and filter keep the guest to its addresses: "+
					"docs/reference/networking.md#the-filter")
		case "bandwidth", "coalesce", "tune", "mtu", "port":
			child.seeAll()
			d.changePart(child, "not there", "")
		case "link":
			child.seeAll()
			if child.attributeValue("state") == "down" {
				d.changePart(child, "the link is up", "")
			}
		case "vlan":
			d.blockPart(child, "a tap has no VLAN", "a bridge for that VLAN: --bridge")
		case "ip", "route":
			child.seeAll()
			d.changePart(child, "the addresses are the network's own", "vm.network[].net")
		}
	}
}

// readPorts reads the ports that passt forwards.
func (d *domain) readPorts(n *node, net *vmspec.Network) {
	for _, forward := range n.takeChildren("portForward") {
		protocol := forward.attributeValue("proto")
		if dev := forward.attributeNode("dev"); dev != nil {
			d.changePart(dev, "ports are listened on by address", "")
		}
		for _, r := range forward.takeChildren("range") {
			start, err := strconv.Atoi(r.attributeValue("start"))
			end, to := start, start
			if text := r.attributeValue("end"); text != "" && err == nil {
				end, err = strconv.Atoi(text)
			}
			if text := r.attributeValue("to"); text != "" && err == nil {
				to, err = strconv.Atoi(text)
			}
			const most = 64
			if err != nil || r.attributeValue("exclude") == "yes" || end < start || end-start >= most {
				d.blockPart(r, fmt.Sprintf("must be a range of at most %d ports, without excluded ports", most), "")
				continue
			}
			for port := start; port <= end; port++ {
				net.Ports = append(net.Ports, vmspec.PortForward{
					Protocol: protocol, Address: forward.attributeValue("address"), Host: port,
					Guest: to + port - start,
				})
			}
			d.keepPart(r, "vm.network[].ports")
		}
	}
}
