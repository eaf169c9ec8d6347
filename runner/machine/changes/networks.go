package changes

import (
	"net"
	"slices"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// MatchNetworks returns, for each wanted network, the index of the same network in the running machine, or -1 if it is
// new. The hardware address identifies a network; the default address follows from the position. If a network and
// the running machine's network at the same position both lack a counterpart, they are the same network with another
// address. plugged are the addresses of cards that were plugged in since the start; they have no counterpart.
func MatchNetworks(running, wanted []vmspec.Network, plugged ...string) []int {
	matches := make([]int, len(wanted))
	matched := map[int]bool{}
	for i, w := range wanted {
		matches[i] = slices.IndexFunc(running, func(r vmspec.Network) bool { return sameAddress(r.MAC, w.MAC) })
		matched[matches[i]] = true
	}
	for i, w := range wanted {
		isPlugged := slices.ContainsFunc(plugged, func(mac string) bool { return sameAddress(mac, w.MAC) })
		if matches[i] < 0 && i < len(running) && !matched[i] && !isPlugged {
			matches[i], matched[i] = i, true
		}
	}
	return matches
}

func sameAddress(a, b string) bool {
	x, e := net.ParseMAC(a)
	y, f := net.ParseMAC(b)
	return e == nil && f == nil && slices.Equal(x, y)
}

// Pluggable returns the indices of the wanted networks that are new, according to MatchNetworks, and that a rule of the
// running plan covers. Whether the machine takes such a card also depends on its VM type.
func Pluggable(rules plan.Rules, wanted []vmspec.Network, matches []int) (indices []int) {
	rule, _ := rules.NICs()
	for i, match := range matches {
		n := wanted[i]
		if match < 0 && slices.Contains(rule.Types, string(n.Type)) && !strings.HasPrefix(n.Device, "usb-") {
			indices = append(indices, i)
		}
	}
	return indices
}
