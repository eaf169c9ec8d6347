package outbound

import (
	"fmt"
	"net/netip"
)

// A Rule decides which addresses a connection may have. The zero value refuses internal addresses.
type Rule struct {
	// NoPrivate also refuses private addresses.
	NoPrivate bool
	// Exempt permits addresses that the rule would refuse; nil permits no exceptions.
	Exempt func(netip.AddrPort) bool
}

// A RefusedError is the error of a connection that a rule has refused.
type RefusedError struct {
	// Host is the refused address, or a name for such an address.
	Host string
	// Kind describes the address.
	Kind string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is %s: such addresses are internal and not permitted here", e.Host, e.Kind)
}

// Check returns a RefusedError if a connection to an address is not permitted.
func (r Rule) Check(to netip.AddrPort) error {
	kind := kindOf(to.Addr())
	if kind == "" && r.NoPrivate {
		kind = privateKind(to.Addr())
	}
	if kind == "" || r.Exempt != nil && r.Exempt(netip.AddrPortFrom(to.Addr().Unmap(), to.Port())) {
		return nil
	}
	return &RefusedError{to.Addr().String(), kind}
}

// kindOf describes an internal address; "" means that the address isn't internal.
func kindOf(a netip.Addr) string {
	if inner, ok := embeddedIPv4(a); ok {
		if kind := kindOf(inner); kind != "" {
			return fmt.Sprintf("the address %s in IPv6, %s", inner, kind)
		}
		return ""
	}
	a = a.WithZone("")
	switch {
	case a.IsUnspecified(), isInNetworks(a, "0.0.0.0/8"):
		return "an unspecified address"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a multicast or broadcast address"
	case isInNetworks(a, metadataAddresses()...):
		return "the address of a cloud's metadata"
	}
	return ""
}

// metadataAddresses returns the addresses, other than link-local addresses, where clouds give a computer its secrets:
// at Azure, Alibaba, Oracle, Amazon, Google and Scaleway.
func metadataAddresses() []string {
	return []string{
		"168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32",
		"fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128",
	}
}

// privateKind describes a private address; "" means that the address isn't private.
func privateKind(a netip.Addr) string {
	if inner, ok := embeddedIPv4(a); ok {
		return privateKind(inner)
	}
	if a = a.WithZone(""); a.IsPrivate() || isInNetworks(a, "100.64.0.0/10", "fec0::/10", "192.0.0.0/24",
		"198.18.0.0/15") {
		return "a private address"
	}
	return ""
}

// embeddedIPv4 returns the IPv4 address inside an IPv6 address: a mapped or compatible address, or an address of 6to4
// or NAT64 with a gateway that connects to the IPv4 address.
func embeddedIPv4(a netip.Addr) (inner netip.Addr, ok bool) {
	if a.Is4() {
		return a, false
	}
	a = a.WithZone("") // a prefix has no zone
	bytes := a.As16()
	at := len(bytes) - 4
	switch {
	case isInNetworks(a, "2002::/16"):
		at = 2
	case a.Is4In6(), isInNetworks(a, "64:ff9b::/96", "64:ff9b:1::/48"):
	case isInNetworks(a, "::/96") && !a.IsUnspecified() && !a.IsLoopback():
	default:
		return a, false
	}
	return netip.AddrFrom4([4]byte(bytes[at : at+4])), true
}

// isInNetworks reports whether an address is in one of the networks.
func isInNetworks(a netip.Addr, networks ...string) bool {
	for _, text := range networks {
		if netip.MustParsePrefix(text).Contains(a) {
			return true
		}
	}
	return false
}
