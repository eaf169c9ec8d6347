package netsetup

import (
	"fmt"
	"iter"
	"net/netip"
)

// usedPrefix is a part of the address space that is in use.
type usedPrefix struct {
	prefix netip.Prefix
	by     string // "interface eth0"
}

// firstOverlap returns the first prefix in used that shares addresses with p.
func firstOverlap(p netip.Prefix, used []usedPrefix) (usedPrefix, bool) {
	for _, u := range used {
		if u.prefix.Overlaps(p) {
			return u, true
		}
	}
	return usedPrefix{}, false
}

// defaultSubnets yields the subnets to try if the configuration names no subnet. 10.0.2.0/24, which users of QEMU
// know, comes first. The others give each of several VMs on one computer its own subnet.
func defaultSubnets() iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for _, block := range [][3]byte{{10, 0, 2}, {172, 30, 0}, {192, 168, 128}} {
			for third := int(block[2]); third < 256; third++ {
				if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{block[0], block[1], byte(third), 0}), 24)) {
					return
				}
			}
		}
	}
}

// checkSubnet returns the prefix with its host bits cleared.
func checkSubnet(doing string, p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() || !p.Addr().Is4() || p.Bits() < 8 || p.Bits() > 30 {
		return netip.Prefix{}, &Error{
			Doing: doing, Fault: SubnetInvalid,
			Detail: fmt.Sprintf("%s is not an IPv4 subnet of /8 to /30", p),
			Remedy: "write it like 10.0.2.0/24",
		}
	}
	return p.Masked(), nil
}

// gatewayOf and guestOf return the first two addresses of a subnet.
func gatewayOf(subnet netip.Prefix) netip.Addr { return subnet.Addr().Next() }
func guestOf(subnet netip.Prefix) netip.Addr   { return subnet.Addr().Next().Next() }
