package vmspec

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Limits of a lease, chosen so that it fits into one packet of any network.
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

// onBridge is an address in a bridge's network.
type onBridge struct {
	bridge  string
	address netip.Addr
}

// checkLease checks the settings that a tap's guest receives over DHCP. leased are the addresses of other guests.
func (c *checker) checkLease(path string, n Network, leased map[onBridge]string) {
	l := n.Lease
	if n.Type != NetworkTap || l == nil {
		return
	}
	path += ".lease"
	guest, ok := c.leaseAddress(path+".address", l.Address)
	if ok {
		key := onBridge{n.Bridge, guest.Addr()}
		if first, taken := leased[key]; taken {
			c.addFault(path+".address", "%s is taken", guest.Addr()).withHint("by %s", first).withPaths(first)
		} else {
			leased[key] = path + ".address"
		}
	}
	if l.Gateway != "" {
		c.checkNeighbor(path+".gateway", l.Gateway, guest)
	}
	c.checkNameservers(path+".nameservers", l.Nameservers)
	c.checkRoutes(path+".routes", l.Routes, guest)
}

// leaseAddress checks an address with its subnet, and returns it if it is valid.
func (c *checker) leaseAddress(path, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	switch {
	case text == "":
		c.addFault(path, "missing").withHint("the guest's address and subnet, such as 10.66.10.14/24")
	case err != nil || !p.Addr().Is4():
		c.addFault(path, "%s is not an IPv4 address with the length of its subnet",
			quoteClipped(text)).withHint(anAddress)
	case p.Bits() < 8 || p.Bits() > 30:
		c.addFault(path, "%s is in a subnet of no sensible size", quoteClipped(text)).withHint("/8 to /30")
	case !p.Addr().IsGlobalUnicast():
		c.addFault(path, "%s is not an address that a guest can have", quoteClipped(text)).withHint(anAddress)
	case isEdge(p, p.Addr()):
		c.addFault(path, "%s is the first or last address of its subnet", quoteClipped(text)).withHint(edges)
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

// isEdge reports whether an address is the address of the subnet itself, or its broadcast address.
func isEdge(subnet netip.Prefix, a netip.Addr) bool {
	subnet = subnet.Masked()
	return subnet.Contains(a) && (a == subnet.Addr() || !subnet.Contains(a.Next()))
}

// checkNeighbor checks the address of a router in the guest's subnet. An invalid guest means that the guest's address
// is wrong.
func (c *checker) checkNeighbor(path, text string, guest netip.Prefix) {
	a, err := netip.ParseAddr(text)
	switch {
	case text == "":
		c.addFault(path, "missing").withHint("a router in the guest's subnet")
	case err != nil || !a.Is4():
		c.addFault(path, "%s is not an IPv4 address", quoteClipped(text)).withHint("such as 10.66.10.1")
	case !guest.IsValid():
	case a == guest.Addr():
		c.addFault(path, "%s is the guest's own address", quoteClipped(text)).withHint("a router in %s", guest.Masked())
	case !guest.Masked().Contains(a):
		c.addFault(path, "%s is outside of the guest's subnet", quoteClipped(text)).withHint("a router in %s",
			guest.Masked())
	case isEdge(guest, a):
		c.addFault(path, "%s is the first or last address of the subnet", quoteClipped(text)).withHint(edges)
	}
}

// isDomain reports whether a text is a DNS name (RFC 1035), with or without a dot at the end.
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

func (c *checker) checkNameservers(path string, n *Nameservers) {
	if n == nil {
		return
	}
	if len(n.Addresses) > mostNameservers {
		c.addFault(path+".addresses", "has %d name servers", len(n.Addresses)).withHint("the maximum is %d",
			mostNameservers)
	}
	for i, text := range n.Addresses {
		if a, err := netip.ParseAddr(text); err != nil || !a.Is4() || a.IsUnspecified() {
			c.addFault(fmt.Sprintf("%s.addresses[%d]", path, i), "%s is not the IPv4 address of a name server",
				quoteClipped(text)).withHint("such as 10.66.10.1")
		}
	}
	if len(n.Search) > mostSearch || len(strings.Join(n.Search, " ")) > longestSearch {
		c.addFault(path+".search", "has %d domains of %d characters", len(n.Search),
			len(strings.Join(n.Search, ""))).withHint("the maximum is %d domains of %d characters together",
			mostSearch, longestSearch)
	}
	for i, text := range n.Search {
		if !isDomain(text) {
			c.addFault(fmt.Sprintf("%s.search[%d]", path, i), "%s is not a domain",
				quoteClipped(text)).withHint("such as example.org")
		}
	}
}

func (c *checker) checkRoutes(path string, routes []Route, guest netip.Prefix) {
	if len(routes) > mostRoutes {
		c.addFault(path, "has %d routes", len(routes)).withHint("the maximum is %d", mostRoutes)
		return
	}
	seen := map[netip.Prefix]string{}
	for i, r := range routes {
		at := fmt.Sprintf("%s[%d]", path, i)
		to, err := netip.ParsePrefix(r.To)
		switch {
		case r.To == "":
			c.addFault(at+".to", "missing").withHint("a subnet, such as 10.7.0.0/16")
		case err != nil || !to.Addr().Is4():
			c.addFault(at+".to", "%s is not an IPv4 subnet", quoteClipped(r.To)).withHint("such as 10.7.0.0/16")
		case to != to.Masked():
			c.addFault(at+".to", "%s is an address within a subnet", quoteClipped(r.To)).withHint("the subnet is %s",
				to.Masked())
		case to.Bits() == 0:
			c.addFault(at+".to", "%s is everything", quoteClipped(r.To)).withHint("the router to that is the gateway")
		case seen[to] != "":
			c.addFault(at+".to", "%s has a route", to).withHint("by %s", seen[to]).withPaths(seen[to])
		default:
			seen[to] = at + ".to"
		}
		c.checkNeighbor(at+".via", r.Via, guest)
	}
}
