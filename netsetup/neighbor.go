package netsetup

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// GuestBehind returns the address of the VM in the private subnet behind a tap.
func GuestBehind(tap string) (netip.Addr, error) {
	doing := "find the machine behind tap " + tap
	link, err := netlink.LinkByName(tap)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", doing, err)
	}
	subnet, err := subnetOf(doing, link)
	if err != nil {
		return netip.Addr{}, err
	}
	return guestOf(subnet), nil
}

// IsNeighbor reports whether the kernel's neighbor table for one of the interfaces maps the address to one of the
// cards, which are hardware addresses. Packets for such an address go straight to that card, not through a router
// and not to this computer.
func IsNeighbor(address netip.Addr, interfaces, cards []string) (bool, error) {
	family := netlink.FAMILY_V4
	if address.Is6() {
		family = netlink.FAMILY_V6
	}
	for _, name := range interfaces {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return false, fmt.Errorf("find the neighbors at %s: %w", name, err)
		}
		neighbors, err := netlink.NeighList(link.Attrs().Index, family)
		if err != nil {
			return false, fmt.Errorf("find the neighbors at %s: %w", name, err)
		}
		if slices.ContainsFunc(neighbors, func(n netlink.Neigh) bool {
			return n.IP.Equal(address.AsSlice()) && slices.Contains(cards, n.HardwareAddr.String())
		}) {
			return true, nil
		}
	}
	return false, nil
}
