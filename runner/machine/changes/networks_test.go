package changes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// networksWith returns user networks with these last digits of their addresses.
func networksWith(digits string) (list []vmspec.Network) {
	for _, d := range digits {
		list = append(list, vmspec.Network{Type: vmspec.NetworkUser, MAC: "02:00:00:00:00:0" + string(d)})
	}
	return list
}

func TestMatchNetworks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		running, wanted, plugged string
		matches                  []int
	}{
		{"123", "123", "", []int{0, 1, 2}},
		{"123", "23", "", []int{1, 2}},
		{"123", "234", "", []int{1, 2, -1}},
		{"1", "12", "", []int{0, -1}},
		{"1", "21", "", []int{-1, 0}},
		{"1", "2", "", []int{0}}, // the network has another address
		{"1", "2", "2", []int{-1}},
		{"12", "32", "", []int{0, 1}},
		{"", "1", "", []int{-1}},
	} {
		var plugged []string
		for _, n := range networksWith(c.plugged) {
			plugged = append(plugged, n.MAC)
		}
		matches := MatchNetworks(networksWith(c.running), networksWith(c.wanted), plugged...)
		require.Equal(t, c.matches, matches, "%s, then %s", c.running, c.wanted)
	}
}

func TestPluggable(t *testing.T) {
	t.Parallel()
	rules := plan.Rules{plan.NICs{Buses: []string{"hotplug0"}, Types: []string{"tap", "user"}}}
	wanted := networksWith("12345")
	wanted[1].Type, wanted[2].Type, wanted[3].Device = vmspec.NetworkTap, vmspec.NetworkPasst, "usb-net"
	require.Equal(t, []int{1, 4}, Pluggable(rules, wanted, []int{0, -1, -1, -1, -1}))
	require.Empty(t, Pluggable(nil, wanted, []int{0, -1, -1, -1, -1}))
}
