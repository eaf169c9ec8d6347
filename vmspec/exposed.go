package vmspec

import (
	"net"
	"net/netip"
	"strconv"
)

// An Exposed is a display that is reachable for others than the users of the host.
type Exposed struct {
	// Path is the path of its key: "vm.display.spice".
	Path string
	// Address is the listening address; "*:5900" means every address.
	Address string
}

// Exposed returns the displays that listen on other addresses than loopback addresses.
func (d *Display) Exposed() (list []Exposed) {
	add := func(path, address string, port int) {
		if IsLoopback(address) {
			return
		}
		if isWildcard(address) {
			address = "*"
		}
		list = append(list, Exposed{path, net.JoinHostPort(address, strconv.Itoa(port))})
	}
	if d != nil && d.Spice != nil {
		add("vm.display.spice", d.Spice.Address, d.Spice.Port)
	}
	if d != nil && d.VNC != nil && d.VNC.Port != 0 {
		add("vm.display.vnc", orLoopback(d.VNC.Address), d.VNC.Port)
	}
	return list
}

// IsLoopback reports whether only the users of this computer can reach an address.
func IsLoopback(address string) bool {
	ip, err := netip.ParseAddr(address)
	return address == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
