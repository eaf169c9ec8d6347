package describe

import (
	"fmt"
	"net/netip"

	"vmop/manager/web/fleet"
)

// SSH returns the command that connects with a guest from other computers of its network;
// otherwise is for a guest that they can't reach.
func SSH(addresses []fleet.Address, otherwise string) string {
	for _, a := range addresses {
		// A runner that was taken over may say that an option of ssh were one.
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
