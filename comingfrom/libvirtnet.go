package comingfrom

import (
	"fmt"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// network reads an interface.
func (d *domain) network(n *node) {
	kind, source := n.attribute("type"), n.one("source")
	var net vmspec.Network
	switch kind.value() {
	case "bridge":
		if port := n.one("virtualport"); port != nil {
			d.block(n, "a port of "+port.get("type")+" can't be made", "a bridge of Linux: <interface type='bridge'>")
			return
		}
		net.Bridge = source.get("bridge")
		d.keep(source, "vm.network[].bridge")
	case "network":
		if !d.namedNetwork(n, source, &net) {
			return
		}
	case "user":
		net.Type = vmspec.NetworkUser
		if backend := n.one("backend"); backend.get("type") == "passt" {
			net.Type = vmspec.NetworkPasst
			d.drop(backend.attribute("logFile"), "passt's log is the runner's")
			d.keep(backend, "vm.network[].type: passt")
		}
		d.keep(kind, "vm.network[].type: "+string(net.Type))
		d.ports(n, &net)
	case "ethernet":
		d.block(n, "a tap that is there can't be used", "want a bridge: <interface type='bridge'>")
		return
	case "direct":
		d.block(n, "macvtap can't be used", "want a bridge that has "+source.get("dev")+": docs/networking.md")
		return
	default:
		d.block(n, "an interface of type "+kind.value()+" is a VM type's matter", "docs/vm-types/add-device.md")
		return
	}
	net.MAC = n.one("mac").get("address")
	for _, name := range []string{"type", "check", "currentAddress"} {
		n.one("mac").get(name)
	}
	d.keep(n.one("mac"), "vm.network[].mac")
	d.card(n.one("model"), n, &net)
	d.tap(n, &net)
	d.keep(n, fmt.Sprintf("vm.network[%d]", len(d.vm().Network)))
	d.vm().Network = append(d.vm().Network, net)
}

// namedNetwork reads a network of libvirt: its definition is elsewhere.
func (d *domain) namedNetwork(n, source *node, net *vmspec.Network) bool {
	name := source.get("network")
	bridge := source.get("bridge") // of a running domain
	if wanted := d.options.Bridges[name]; wanted != "" {
		bridge = wanted
	}
	d.drop(source.attribute("portid"), "libvirt's matter")
	d.drop(source.attribute("portgroup"), "libvirt's matter")
	switch {
	case bridge != "":
		net.Bridge = bridge
		d.change(source, "vm.network[].bridge: "+bridge+
			", which must be there when the VM starts: libvirt makes it", "")
	case name == "default":
		net.Type = vmspec.NetworkMasquerade
		d.change(source, "vm.network[].type: masquerade, in place of libvirt's NAT: the guest gets another address, and "+
			"doesn't see libvirt's other guests", "--bridge default=virbr0 leaves it in libvirt's network; "+
			"docs/networking.md#masquerade has the rights that it needs")
	default:
		d.block(n, "what the network "+name+" is isn't in this file",
			"virsh net-info "+name+" names its bridge: --bridge '"+name+"=BRIDGE'")
		return false
	}
	return true
}

// card reads the model of the card. On the type pc an option has that of virtio.
func (d *domain) card(model, n *node, net *vmspec.Network) {
	kind := model.attribute("type")
	switch value := kind.value(); {
	case kind == nil:
		d.change(n, "no model is named; the card is the default of the VM type "+d.typeName(), "")
	case value == "virtio":
		if d.pc {
			d.option("networkCard", "virtio-net-pci")
		}
		d.keep(kind, "virtio-net-pci")
	case value == "virtio-transitional", value == "virtio-non-transitional":
		net.Device = strings.Replace(value, "virtio", "virtio-net-pci", 1)
		d.keep(kind, "vm.network[].device")
	case value == "e1000", value == "e1000e", value == "rtl8139", value == "pcnet", value == "ne2k_pci", value == "igb",
		value == "vmxnet3", value == "usb-net":
		net.Device = value
		d.keep(kind, "vm.network[].device")
	default:
		d.block(n, "a card "+value+" is not known here", "")
	}
}

// tap reads the name on the host, and what is lost of an interface.
func (d *domain) tap(n *node, net *vmspec.Network) {
	if target := n.one("target").attribute("dev"); target != nil {
		isOwn := !strings.HasPrefix(target.text, "vnet") && net.Type != vmspec.NetworkUser &&
			net.Type != vmspec.NetworkPasst
		if isOwn && len(target.text) < 16 {
			net.Ifname = target.text
			d.keep(target, "vm.network[].ifname")
		} else {
			d.drop(target, "the runner names the tap")
		}
	}
	d.drop(n.one("target").attribute("managed"), "the runner makes the tap")
	for _, child := range n.children {
		switch child.name {
		case "address", "rom", "acpi", "guest":
			d.drop(child, "the VM type gives each device its place")
		case "driver":
			d.drop(child, "the VM type's matter; networks(vm, host, queues = …) has queues: docs/vm-types/library.md")
		case "boot":
			child.seeAll()
			d.change(child, "network cards have no place in the boot order; the firmware tries them last", "")
		case "filterref":
			child.seeAll()
			d.change(child, "the filter of libvirt is gone",
				"vm.network[].lease and filter keep the guest to its addresses: docs/networking.md#the-filter")
		case "bandwidth", "coalesce", "tune", "mtu", "port":
			child.seeAll()
			d.change(child, "not there", "")
		case "link":
			child.seeAll()
			if child.get("state") == "down" {
				d.change(child, "the link is up", "")
			}
		case "vlan":
			d.block(child, "a tap has no VLAN", "a bridge for that VLAN: --bridge")
		case "ip", "route":
			child.seeAll()
			d.change(child, "the addresses are the network's own", "vm.network[].net")
		}
	}
}

// ports reads what passt forwards.
func (d *domain) ports(n *node, net *vmspec.Network) {
	for _, forward := range n.all("portForward") {
		protocol := forward.get("proto")
		if dev := forward.attribute("dev"); dev != nil {
			d.change(dev, "ports are listened on by address", "")
		}
		for _, r := range forward.all("range") {
			start, err := strconv.Atoi(r.get("start"))
			end, to := start, start
			if text := r.get("end"); text != "" && err == nil {
				end, err = strconv.Atoi(text)
			}
			if text := r.get("to"); text != "" && err == nil {
				to, err = strconv.Atoi(text)
			}
			const most = 64
			if err != nil || r.get("exclude") == "yes" || end < start || end-start >= most {
				d.block(r, fmt.Sprintf("want a range of at most %d ports, and none that is excluded", most), "")
				continue
			}
			for port := start; port <= end; port++ {
				net.Ports = append(net.Ports, vmspec.PortForward{
					Protocol: protocol, Address: forward.get("address"), Host: port, Guest: to + port - start,
				})
			}
			d.keep(r, "vm.network[].ports")
		}
	}
}
