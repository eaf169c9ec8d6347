package loopback

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strings"
)

// longestAddress is the size of struct sockaddr_in6, and shortestAddress the size of struct sockaddr_in without its
// padding.
const (
	longestAddress  = 28
	shortestAddress = 8
)

// Address families of Linux.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

// portOfNames is the port of name servers.
const portOfNames = 53

// destinationOf parses a struct sockaddr; ok is false if it contains no IP address.
func destinationOf(sockaddr []byte) (to netip.AddrPort, ok bool) {
	if len(sockaddr) < shortestAddress {
		return to, false
	}
	port := binary.BigEndian.Uint16(sockaddr[2:])
	switch binary.NativeEndian.Uint16(sockaddr) {
	case familyIPv4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sockaddr[4:8])), port), true
	case familyIPv6:
		if len(sockaddr) >= 24 {
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(sockaddr[8:24])), port), true
		}
	}
	return to, false
}

// isLoopbackAddr reports whether the kernel delivers packets for an address to a loopback address, as it also does for
// the unspecified addresses.
func isLoopbackAddr(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified()
}

// resolvConf lists the host's name servers. QEMU forwards the guest's DNS queries to them.
const resolvConf = "/etc/resolv.conf"

// isNameServer reports whether an address belongs to the host's name server, such as 127.0.0.53 of systemd-resolved.
func isNameServer(to netip.AddrPort) bool {
	if to.Port() != portOfNames {
		return false
	}
	text, err := os.ReadFile(resolvConf)
	return err == nil && listsServer(string(text), to.Addr().Unmap())
}

// listsServer reports whether a resolv.conf lists a name server.
func listsServer(text string, server netip.Addr) bool {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && a.Unmap() == server {
			return true
		}
	}
	return false
}
