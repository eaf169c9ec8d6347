package guest

import (
	"context"
	"net"
	"net/netip"
	"strings"
)

// Limits of a guest's report about its network.
const (
	MaxInterfaces = 64 // more interfaces are left out
	MaxAddresses  = 32 // of one interface
)

// Interface is a network interface of the guest, except loopback.
type Interface struct {
	// Name of the interface in the guest, printable and short.
	Name string
	// MAC is the hardware address, "52:54:00:12:34:56", or empty.
	MAC string
	// Addresses with the length of their network's prefix.
	Addresses []netip.Prefix
}

// reportedInterface is an interface as an agent reports it: GuestNetworkInterface of the reference.
type reportedInterface struct {
	Name      string `json:"name"`
	MAC       string `json:"hardware-address"`
	Addresses []struct {
		Address string `json:"ip-address"`
		Prefix  int    `json:"prefix"`
	} `json:"ip-addresses"`
}

// Interfaces queries the guest's network interfaces (guest-network-get-interfaces). It omits invalid addresses.
func (a *Agent) Interfaces(ctx context.Context) ([]Interface, error) {
	var said []reportedInterface
	if err := a.queryAgent(ctx, "guest-network-get-interfaces", &said); err != nil {
		return nil, err
	}
	var all []Interface
	for _, s := range said {
		if i, ok := s.checkedInterface(); ok && len(all) < MaxInterfaces {
			all = append(all, i)
		}
	}
	return all, nil
}

// checkedInterface returns the valid parts of an interface; false for loopback, and if no part is valid.
func (s reportedInterface) checkedInterface() (i Interface, ok bool) {
	i.Name = fitText(s.Name)
	if mac, err := net.ParseMAC(s.MAC); err == nil && strings.Trim(mac.String(), "0:") != "" {
		i.MAC = mac.String()
	}
	loopback := i.Name == "lo"
	for _, a := range s.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if err != nil || address.IsUnspecified() || address.IsMulticast() {
			continue
		}
		if address.IsLoopback() {
			loopback = true
			continue
		}
		prefix := netip.PrefixFrom(address.WithZone(""), a.Prefix)
		if prefix.IsValid() && len(i.Addresses) < MaxAddresses {
			i.Addresses = append(i.Addresses, prefix)
		}
	}
	return i, i.Name != "" && (!loopback || len(i.Addresses) > 0)
}
