package netsetup

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
)

// surroundings lists the addresses and routes of the namespace.
type surroundings struct {
	addresses []usedPrefix
	routes    []usedPrefix // without default routes
	mtu       int          // of the default route, in bytes
}

// defaultMTU is Ethernet's MTU in bytes, for a namespace without a default route.
const defaultMTU = 1500

// readSurroundings reads the surroundings from the kernel, without the interface own.
func readSurroundings(own netlink.Link) (surroundings, error) {
	s := surroundings{mtu: defaultMTU}
	addresses, err := netlinksafe.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return s, fmt.Errorf("list the addresses: %w", err)
	}
	for _, a := range addresses {
		if prefix, ok := toPrefix(a.IPNet); ok && a.LinkIndex != own.Attrs().Index {
			s.addresses = append(s.addresses,
				usedPrefix{prefix, fmt.Sprintf("interface %d (%s)", a.LinkIndex, a.IPNet)})
		}
	}
	routes, err := netlinksafe.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return s, fmt.Errorf("list the routes: %w", err)
	}
	for _, r := range routes {
		prefix, ok := toPrefix(r.Dst)
		if ok && prefix.Bits() > 0 && r.LinkIndex != own.Attrs().Index {
			s.routes = append(s.routes, usedPrefix{prefix, "a route to " + prefix.String()})
		}
	}
	if route, ok := wayOut(routes); ok {
		s.mtu = mtuOf(route)
	}
	return s, nil
}

// wayOut returns the preferred default route.
func wayOut(routes []netlink.Route) (netlink.Route, bool) {
	var best netlink.Route
	found := false
	for _, r := range routes {
		prefix, ok := toPrefix(r.Dst)
		if isDefault := r.Dst == nil || ok && prefix.Bits() == 0; !isDefault {
			continue
		}
		if !found || r.Priority < best.Priority {
			best, found = r, true
		}
	}
	return best, found
}

// OwnAddress returns the sender address of packets that leave the namespace through its default route. Others reach
// the namespace at that address.
func OwnAddress() (netip.Addr, error) {
	// This sends no packet; the address is reserved for documentation (RFC 5737).
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of the default route: %w", err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// mtuOf returns the MTU of a route in bytes: the route's own limit or, by default, the interface's.
func mtuOf(route netlink.Route) int {
	if route.MTU > 0 {
		return route.MTU
	}
	index := route.LinkIndex
	if index == 0 && len(route.MultiPath) > 0 {
		index = route.MultiPath[0].LinkIndex
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil || link.Attrs().MTU == 0 {
		return defaultMTU
	}
	return link.Attrs().MTU
}

// toPrefix converts an IPv4 network; ok is false for nil and for other networks.
func toPrefix(n *net.IPNet) (p netip.Prefix, ok bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP.To4())
	ones, bits := n.Mask.Size()
	if !ok || bits != 32 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, ones).Masked(), true
}

// toIPNet is the reverse of toPrefix.
func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
}
