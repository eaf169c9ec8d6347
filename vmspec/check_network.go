package vmspec

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
)

// longestIfname is Linux's IFNAMSIZ without the NUL at the end.
const longestIfname = 15

// hasTap reports whether the interface has a tap on the host.
func (n Network) hasTap() bool { return n.Type == NetworkTap || n.Type == NetworkMasquerade }

func (c *checker) checkNetworks() {
	if len(c.spec.Network) > mostDevices {
		c.addFault("vm.network", "has %d interfaces", len(c.spec.Network)).withHint("the maximum is %d", mostDevices)
		return
	}
	macs, ifnames := map[string]string{}, map[string]string{}
	all := "" // the path of the network with allPorts
	leased := map[onBridge]string{}
	for i, n := range c.spec.Network {
		path := fmt.Sprintf("vm.network[%d]", i)
		if !isQEMUName(n.Device) {
			c.addFault(path+".device", "%s is not the name of a network card",
				quoteClipped(n.Device)).withHint("such as virtio-net-pci or e1000e")
		}
		if n.MAC != "" {
			c.checkMAC(path+".mac", n.MAC, macs)
		}
		if !c.oneOf(path+".type", string(n.Type)) {
			continue
		}
		c.oneOf(path+".link", string(n.Link))
		c.checkMisplaced(path, n)
		if n.Type == NetworkTap {
			c.checkIfname(path+".bridge", n.Bridge)
		}
		c.checkLease(path, n, leased)
		if n.hasTap() && n.Ifname != "" {
			c.checkIfname(path+".ifname", n.Ifname)
			if first, taken := ifnames[n.Ifname]; taken {
				c.addFault(path+".ifname", "%s is taken", quoteClipped(n.Ifname)).withHint("by %s",
					first).withPaths(first)
			} else {
				ifnames[n.Ifname] = path + ".ifname"
			}
		}
		if n.Net != "" && n.Type != NetworkTap && n.Type != NetworkPasst {
			c.checkSubnet(path+".net", n.Net)
		}
		for j, p := range n.Ports {
			c.checkPort(fmt.Sprintf("%s.ports[%d]", path, j), p)
		}
		all = c.allPorts(path+".allPorts", n, all)
	}
	c.checkOverlaps()
}

// checkMisplaced finds keys that have no meaning for the type of the network.
func (c *checker) checkMisplaced(path string, n Network) {
	for _, key := range []struct {
		name  string
		given bool
		types string
	}{
		{"bridge", n.Bridge != "" && n.Type != NetworkTap, "tap"},
		{"ifname", n.Ifname != "" && !n.hasTap(), "tap and masquerade"},
		{"net", n.Net != "" && (n.Type == NetworkTap || n.Type == NetworkPasst), "user and masquerade"},
		{"ports", len(n.Ports) > 0 && n.Type == NetworkTap, "user, passt and masquerade"},
		{"hostLoopback", n.HostLoopback && n.hasTap(), "user and passt"},
		{"allPorts", n.AllPorts != nil && n.Type != NetworkMasquerade, "masquerade"},
		{"lease", n.Lease != nil && n.Type != NetworkTap, "tap"},
		{"filter", n.Filter != nil && n.Type != NetworkTap, "tap"},
	} {
		if key.given {
			c.addFault(path+"."+key.name, "has no effect for a network of type %s", n.Type).withHint("it is for %s",
				key.types).withPaths(path + ".type")
		}
	}
}

// allPorts checks that at most one network has allPorts. It returns the path of the first one.
func (c *checker) allPorts(path string, n Network, first string) string {
	if n.AllPorts == nil {
		return first
	}
	for i, port := range n.AllPorts.Keep {
		c.portNumber(fmt.Sprintf("%s.keep[%d]", path, i), port, 1)
	}
	if first != "" {
		c.addFault(path, "the ports are taken").withHint("by %s", first).withPaths(first)
		return first
	}
	return path
}

func (c *checker) checkMAC(path, text string, seen map[string]string) {
	address, err := net.ParseMAC(text)
	switch {
	case err != nil || len(address) != 6 || strings.Contains(text, "."):
		c.addFault(path, "%s is not a hardware address",
			quoteClipped(text)).withHint("six pairs of hexadecimal digits, such as 52:54:00:12:34:56")
	case address[0]&1 != 0:
		c.addFault(path, "%s is a multicast address", quoteClipped(text)).withHint("the second digit must be even")
	case address.String() == "00:00:00:00:00:00":
		c.addFault(path, "%s is not an address of a card", quoteClipped(text))
	default:
		if first, taken := seen[address.String()]; taken {
			c.addFault(path, "%s is taken", quoteClipped(text)).withHint("by %s", first).withPaths(first)
			return
		}
		seen[address.String()] = path
	}
}

// checkIfname checks the name of an interface with Linux's rules (dev_valid_name).
func (c *checker) checkIfname(path, name string) {
	switch {
	case len(name) > longestIfname:
		c.addFault(path, "%s has %d characters", quoteClipped(name), len(name)).withHint("the maximum is %d",
			longestIfname)
	case name == "." || name == ".." || strings.ContainsAny(name, "/:%") ||
		strings.IndexFunc(name, unicode.IsSpace) >= 0:
		c.addFault(path, "%s is not the name of a network interface",
			quoteClipped(name)).withHint("letters, digits, - and .")
	}
}

func (c *checker) checkSubnet(path, text string) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || !prefix.Addr().Is4():
		c.addFault(path, "%s is not an IPv4 subnet", quoteClipped(text)).withHint("such as 10.0.2.0/24")
	case prefix != prefix.Masked():
		c.addFault(path, "%s is an address within a subnet", quoteClipped(text)).withHint("the subnet is %s",
			prefix.Masked())
	case prefix.Bits() < 8 || prefix.Bits() > 28:
		c.addFault(path, "%s has no sensible size", quoteClipped(text)).withHint("/8 to /28")
	}
}

func (c *checker) checkPort(path string, p PortForward) {
	c.oneOf(path+".protocol", p.Protocol)
	if p.Address != "" {
		if _, err := netip.ParseAddr(p.Address); err != nil {
			c.addFault(path+".address", "%s is not an IP address", quoteClipped(p.Address))
		}
	}
	if p.Host == 0 {
		c.addFault(path+".host", "missing").withHint("the port of the host, 1 to %d", lastPort)
		return
	}
	c.portNumber(path+".host", p.Host, 1)
	if p.Guest != p.Host {
		c.portNumber(path+".guest", p.Guest, 1)
	}
}

func (c *checker) portNumber(path string, port, least int) {
	if port < least || port > lastPort {
		c.addFault(path, "can't be %d", port).withHint("%d to %d", least, lastPort)
	}
}

// checkOverlaps finds masqueraded subnets with common addresses. They are routed in one network namespace, so they
// must not overlap.
func (c *checker) checkOverlaps() {
	var seen []netip.Prefix
	var paths []string
	for i, n := range c.spec.Network {
		prefix, err := netip.ParsePrefix(n.Net)
		if err != nil || n.Type != NetworkMasquerade {
			continue
		}
		path := fmt.Sprintf("vm.network[%d].net", i)
		for j, other := range seen {
			if other.Overlaps(prefix) {
				c.addFault(path, "%s overlaps with %s", prefix,
					paths[j]).withHint("give each masqueraded network a different subnet").withPaths(paths[j])
				break
			}
		}
		seen, paths = append(seen, prefix), append(paths, path)
	}
}

// A listener is a listening port of the host.
type listener struct {
	path, protocol, address string
	port                    int
}

// checkListeners finds ports that are used twice.
func (c *checker) checkListeners() {
	var all []listener
	if d := c.spec.Display; d != nil && d.Spice != nil {
		all = append(all, listener{"vm.display.spice.port", "tcp", d.Spice.Address, d.Spice.Port})
	}
	if d := c.spec.Display; d != nil && d.VNC != nil && d.VNC.Port != 0 {
		all = append(all, listener{"vm.display.vnc.port", "tcp", orLoopback(d.VNC.Address), d.VNC.Port})
	}
	for i, n := range c.spec.Network {
		for j, p := range n.Ports {
			address := p.Address
			if !n.hasTap() {
				address = orLoopback(address)
			}
			all = append(all, listener{fmt.Sprintf("vm.network[%d].ports[%d].host", i, j), p.Protocol, address, p.Host})
		}
	}
	type endpoint struct {
		protocol string
		port     int
	}
	seen := map[endpoint][]listener{}
	for _, l := range all {
		if l.port == 0 {
			continue
		}
		key := endpoint{l.protocol, l.port}
		for _, other := range seen[key] {
			if l.address == other.address || isWildcard(l.address) || isWildcard(other.address) {
				c.addFault(l.path, "%s port %d is taken", l.protocol, l.port).withHint("by %s",
					other.path).withPaths(other.path)
				break
			}
		}
		seen[key] = append(seen[key], l)
	}
}

func orLoopback(address string) string {
	if address == "" {
		return "127.0.0.1"
	}
	return address
}

func isWildcard(address string) bool {
	return address == "" || address == "0.0.0.0" || address == "::"
}
