package outbound

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Named returns the rule for servers that the user of this computer or the administrator of the manager has
// configured, each as host or host:port. If a server is literally this computer, the rule permits loopback addresses
// with that server's port. Names that resolve to loopback addresses, and redirects to other ports, aren't permitted.
func Named(servers ...string) Rule {
	var ports []string
	for _, server := range servers {
		u := url.URL{Host: server}
		switch {
		case !IsThisComputer(u.Hostname()):
		case u.Port() == "":
			ports = append(ports, "80", "443")
		default:
			ports = append(ports, u.Port())
		}
	}
	return Rule{Exempt: func(to netip.AddrPort) bool {
		return to.Addr().IsLoopback() && slices.Contains(ports, strconv.Itoa(int(to.Port())))
	}}
}

// NamedBy returns the rule of Named for the servers of URLs.
func NamedBy(addresses ...string) Rule {
	var servers []string
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil {
			servers = append(servers, u.Host)
		}
	}
	return Named(servers...)
}

// IsThisComputer reports whether a host is literally this computer: "localhost" or a loopback address.
func IsThisComputer(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
