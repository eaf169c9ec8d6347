package vmspec

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
)

// longestIfname is IFNAMSIZ of Linux without the NUL at its end.
const longestIfname = 15

// hasTap reports whether there is a tap on the host for the interface.
func (n Network) hasTap() bool { return n.Type == NetworkTap || n.Type == NetworkMasquerade }

func (c *checker) networks() {
	if len(c.spec.Network) > mostDevices {
		c.add("vm.network", "has %d interfaces", len(c.spec.Network)).hint("the most is %d", mostDevices)
		return
	}
	macs, ifnames := map[string]string{}, map[string]string{}
	all := "" // the network that has all ports
	leased := map[onBridge]string{}
	for i, n := range c.spec.Network {
		path := fmt.Sprintf("vm.network[%d]", i)
		if !isWord(n.Device) {
			c.add(path+".device", "%s is not the name of a network card",
				quote(n.Device)).hint("such as virtio-net-pci or e1000e")
		}
		if n.MAC != "" {
			c.mac(path+".mac", n.MAC, macs)
		}
		if !c.oneOf(path+".type", string(n.Type)) {
			continue
		}
		c.misplaced(path, n)
		if n.Type == NetworkTap {
			c.ifname(path+".bridge", n.Bridge)
		}
		c.lease(path, n, leased)
		if n.hasTap() && n.Ifname != "" {
			c.ifname(path+".ifname", n.Ifname)
			if first, taken := ifnames[n.Ifname]; taken {
				c.add(path+".ifname", "%s is taken", quote(n.Ifname)).hint("by %s", first).also(first)
			} else {
				ifnames[n.Ifname] = path + ".ifname"
			}
		}
		if n.Net != "" && n.Type != NetworkTap && n.Type != NetworkPasst {
			c.subnet(path+".net", n.Net)
		}
		for j, p := range n.Ports {
			c.port(fmt.Sprintf("%s.ports[%d]", path, j), p)
		}
		all = c.allPorts(path+".allPorts", n, all)
	}
	c.overlaps()
}

// misplaced finds keys that mean nothing for the type of the network.
func (c *checker) misplaced(path string, n Network) {
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
			c.add(path+"."+key.name, "means nothing for a network of type %s", n.Type).hint("it is for %s",
				key.types).also(path + ".type")
		}
	}
}

// allPorts checks that one network at most has all ports, first; it returns which.
func (c *checker) allPorts(path string, n Network, first string) string {
	if n.AllPorts == nil {
		return first
	}
	for i, port := range n.AllPorts.Keep {
		c.portNumber(fmt.Sprintf("%s.keep[%d]", path, i), port, 1)
	}
	if first != "" {
		c.add(path, "the ports are taken").hint("by %s", first).also(first)
		return first
	}
	return path
}

func (c *checker) mac(path, text string, seen map[string]string) {
	address, err := net.ParseMAC(text)
	switch {
	case err != nil || len(address) != 6 || strings.Contains(text, "."):
		c.add(path, "%s is not a hardware address",
			quote(text)).hint("six pairs of hexadecimal digits, such as 52:54:00:12:34:56")
	case address[0]&1 != 0:
		c.add(path, "%s is a multicast address", quote(text)).hint("the second digit must be even")
	case address.String() == "00:00:00:00:00:00":
		c.add(path, "%s is no address of a card", quote(text))
	default:
		if first, taken := seen[address.String()]; taken {
			c.add(path, "%s is taken", quote(text)).hint("by %s", first).also(first)
			return
		}
		seen[address.String()] = path
	}
}

// ifname checks the name of an interface as Linux does (dev_valid_name).
func (c *checker) ifname(path, name string) {
	switch {
	case len(name) > longestIfname:
		c.add(path, "%s has %d characters", quote(name), len(name)).hint("the most is %d", longestIfname)
	case name == "." || name == ".." || strings.ContainsAny(name, "/:%") ||
		strings.IndexFunc(name, unicode.IsSpace) >= 0:
		c.add(path, "%s is not the name of a network interface", quote(name)).hint("letters, digits, - and .")
	}
}

func (c *checker) subnet(path, text string) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || !prefix.Addr().Is4():
		c.add(path, "%s is not an IPv4 subnet", quote(text)).hint("such as 10.0.2.0/24")
	case prefix != prefix.Masked():
		c.add(path, "%s is an address within a subnet", quote(text)).hint("the subnet is %s", prefix.Masked())
	case prefix.Bits() < 8 || prefix.Bits() > 28:
		c.add(path, "%s has no sensible size", quote(text)).hint("/8 to /28")
	}
}

func (c *checker) port(path string, p PortForward) {
	c.oneOf(path+".protocol", p.Protocol)
	if p.Address != "" {
		if _, err := netip.ParseAddr(p.Address); err != nil {
			c.add(path+".address", "%s is not an IP address", quote(p.Address))
		}
	}
	if p.Host == 0 {
		c.add(path+".host", "missing").hint("the port of the host, 1 to %d", lastPort)
		return
	}
	c.portNumber(path+".host", p.Host, 1)
	if p.Guest != p.Host {
		c.portNumber(path+".guest", p.Guest, 1)
	}
}

func (c *checker) portNumber(path string, port, least int) {
	if port < least || port > lastPort {
		c.add(path, "can't be %d", port).hint("%d to %d", least, lastPort)
	}
}

// overlaps finds masqueraded subnets that share addresses: they are routed in
// one network namespace.
func (c *checker) overlaps() {
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
				c.add(path, "%s overlaps with %s", prefix,
					paths[j]).hint("give each masqueraded network a subnet of its own").also(paths[j])
				break
			}
		}
		seen, paths = append(seen, prefix), append(paths, path)
	}
}

// A listener is a port of the host that something listens on.
type listener struct {
	path, protocol, address string
	port                    int
}

// listeners finds ports that are asked for twice.
func (c *checker) listeners() {
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
				c.add(l.path, "%s port %d is taken", l.protocol, l.port).hint("by %s", other.path).also(other.path)
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
