package vmspec

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Bounds of a lease: together they fit into one packet of every network.
const (
	mostNameservers = 8
	mostSearch      = 6
	longestSearch   = 256 // bytes, of all domains together
	mostRoutes      = 32
)

const (
	anAddress = "such as 10.66.10.14/24"
	edges     = "these stand for the subnet and for everyone in it"
)

// onBridge is an address in the network of a bridge.
type onBridge struct {
	bridge  string
	address netip.Addr
}

// lease checks what a tap's guest gets by DHCP. leased are the addresses that others have.
func (c *checker) lease(path string, n Network, leased map[onBridge]string) {
	l := n.Lease
	if n.Type != NetworkTap || l == nil {
		return
	}
	path += ".lease"
	guest, ok := c.leaseAddress(path+".address", l.Address)
	if ok {
		key := onBridge{n.Bridge, guest.Addr()}
		if first, taken := leased[key]; taken {
			c.add(path+".address", "%s is taken", guest.Addr()).hint("by %s", first).also(first)
		} else {
			leased[key] = path + ".address"
		}
	}
	if l.Gateway != "" {
		c.neighbor(path+".gateway", l.Gateway, guest)
	}
	c.nameservers(path+".nameservers", l.Nameservers)
	c.routes(path+".routes", l.Routes, guest)
}

// leaseAddress checks an address with its subnet, and returns it if nothing is wrong with it.
func (c *checker) leaseAddress(path, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	switch {
	case text == "":
		c.add(path, "missing").hint("the guest's address and subnet, such as 10.66.10.14/24")
	case err != nil || !p.Addr().Is4():
		c.add(path, "%s is not an IPv4 address with the length of its subnet", quote(text)).hint(anAddress)
	case p.Bits() < 8 || p.Bits() > 30:
		c.add(path, "%s is in a subnet of no sensible size", quote(text)).hint("/8 to /30")
	case !p.Addr().IsGlobalUnicast():
		c.add(path, "%s is not an address that a guest can have", quote(text)).hint(anAddress)
	case isEdge(p, p.Addr()):
		c.add(path, "%s is the first or last address of its subnet", quote(text)).hint(edges)
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// isEdge reports whether an address is that of the subnet itself, or its broadcast address.
func isEdge(subnet netip.Prefix, a netip.Addr) bool {
	subnet = subnet.Masked()
	return subnet.Contains(a) && (a == subnet.Addr() || !subnet.Contains(a.Next()))
}

// neighbor checks the address of a router in the guest's subnet; an invalid guest is one
// whose address is wrong.
func (c *checker) neighbor(path, text string, guest netip.Prefix) {
	a, err := netip.ParseAddr(text)
	switch {
	case text == "":
		c.add(path, "missing").hint("a router in the guest's subnet")
	case err != nil || !a.Is4():
		c.add(path, "%s is not an IPv4 address", quote(text)).hint("such as 10.66.10.1")
	case !guest.IsValid():
	case a == guest.Addr():
		c.add(path, "%s is the guest's own address", quote(text)).hint("a router in %s", guest.Masked())
	case !guest.Masked().Contains(a):
		c.add(path, "%s is outside of the guest's subnet", quote(text)).hint("a router in %s", guest.Masked())
	case isEdge(guest, a):
		c.add(path, "%s is the first or last address of the subnet", quote(text)).hint(edges)
	}
}

// isDomain reports whether a text is a name of DNS (RFC 1035), with or without a dot at its end.
func isDomain(text string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(text, "."), ".") {
		odd := strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		})
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || odd {
			return false
		}
	}
	return true
}

func (c *checker) nameservers(path string, n *Nameservers) {
	if n == nil {
		return
	}
	if len(n.Addresses) > mostNameservers {
		c.add(path+".addresses", "has %d name servers", len(n.Addresses)).hint("the most is %d", mostNameservers)
	}
	for i, text := range n.Addresses {
		if a, err := netip.ParseAddr(text); err != nil || !a.Is4() || a.IsUnspecified() {
			c.add(fmt.Sprintf("%s.addresses[%d]", path, i), "%s is not the IPv4 address of a name server",
				quote(text)).hint("such as 10.66.10.1")
		}
	}
	if len(n.Search) > mostSearch || len(strings.Join(n.Search, " ")) > longestSearch {
		c.add(path+".search", "has %d domains of %d characters", len(n.Search),
			len(strings.Join(n.Search, ""))).hint("the most is %d domains of %d characters together",
			mostSearch, longestSearch)
	}
	for i, text := range n.Search {
		if !isDomain(text) {
			c.add(fmt.Sprintf("%s.search[%d]", path, i), "%s is not a domain", quote(text)).hint("such as example.org")
		}
	}
}

func (c *checker) routes(path string, routes []Route, guest netip.Prefix) {
	if len(routes) > mostRoutes {
		c.add(path, "has %d routes", len(routes)).hint("the most is %d", mostRoutes)
		return
	}
	seen := map[netip.Prefix]string{}
	for i, r := range routes {
		at := fmt.Sprintf("%s[%d]", path, i)
		to, err := netip.ParsePrefix(r.To)
		switch {
		case r.To == "":
			c.add(at+".to", "missing").hint("a subnet, such as 10.7.0.0/16")
		case err != nil || !to.Addr().Is4():
			c.add(at+".to", "%s is not an IPv4 subnet", quote(r.To)).hint("such as 10.7.0.0/16")
		case to != to.Masked():
			c.add(at+".to", "%s is an address within a subnet", quote(r.To)).hint("the subnet is %s", to.Masked())
		case to.Bits() == 0:
			c.add(at+".to", "%s is everything", quote(r.To)).hint("the router to that is the gateway")
		case seen[to] != "":
			c.add(at+".to", "%s has a route", to).hint("by %s", seen[to]).also(seen[to])
		default:
			seen[to] = at + ".to"
		}
		c.neighbor(at+".via", r.Via, guest)
	}
}
