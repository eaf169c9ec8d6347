package describe

import (
	"fmt"
	"net/netip"

	"vmop/manager/web/fleet"
)

// SSH returns the command that connects to a guest from other computers in its network. If they can't reach it, SSH
// returns otherwise.
func SSH(addresses []fleet.Address, otherwise string) string {
	for _, a := range addresses {
		// A compromised runner could report an option of ssh as an address.
		if ip, err := netip.ParseAddr(a.Address); err != nil || ip.Zone() != "" || a.From != "Network" {
			continue
		}
		if a.Ports == nil {
			return "ssh " + a.Address
		}
		for _, p := range a.Ports {
			if p.TCP && p.Guest == 22 {
				return fmt.Sprintf("ssh -p %d %s", p.Port, a.Address)
			}
		}
	}
	return otherwise
}
