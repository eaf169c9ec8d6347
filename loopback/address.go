package loopback

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strings"
)

// longestAddress is the size of struct sockaddr_in6, and shortestAddress that of struct sockaddr_in
// without its padding.
const (
	longestAddress  = 28
	shortestAddress = 8
)

// The address families of Linux.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

// portOfNames is where name servers answer.
const portOfNames = 53

// destination reads a struct sockaddr; false means that it has no IP address.
func destination(sockaddr []byte) (to netip.AddrPort, ok bool) {
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

// isLoopback reports whether the kernel delivers to a loopback address what is sent to an address. It does
// so for the unspecified addresses.
func isLoopback(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLoopback() || a.IsUnspecified()
}

// resolvConf lists the host's name servers, to which QEMU forwards the guest's questions.
const resolvConf = "/etc/resolv.conf"

// isNameServer reports whether the host's name server is at an address, such as the 127.0.0.53 of
// systemd-resolved.
func isNameServer(to netip.AddrPort) bool {
	if to.Port() != portOfNames {
		return false
	}
	text, err := os.ReadFile(resolvConf)
	return err == nil && listsServer(string(text), to.Addr().Unmap())
}

// listsServer reports whether a resolv.conf has a name server.
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
