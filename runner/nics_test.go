package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/runner/status"
)

// nicState returns a condition: the card with a hardware address is in a state, and its message contains a text.
func nicState(mac, state, text string) func(status.Status) bool {
	return func(s status.Status) bool {
		return slices.ContainsFunc(s.NICs, func(n status.NIC) bool {
			return n.MAC == mac && n.State == state && strings.Contains(n.Message, text)
		})
	}
}

// pluggedCards returns the IDs of the network cards that were plugged in, according to QEMU.
func (v *vm) pluggedCards() (ids []string) {
	v.t.Helper()
	var devices []struct{ Name, Type string }
	v.ask(&devices, "qom-list", map[string]string{"path": "/machine/peripheral"})
	for _, d := range devices {
		if strings.HasPrefix(d.Name, "nic") && strings.Contains(d.Name, "-") {
			require.Equal(v.t, "child<virtio-net-pci>", d.Type)
			ids = append(ids, d.Name)
		}
	}
	return ids
}

// networks writes a configuration with these networks, and with additional lines for the runner.
func (v *vm) networks(networks string, runnerLines ...string) {
	v.t.Helper()
	v.configure("wrapped", runnerLines, v.observer, "accelerator: tcg", "firmware: bios", "maximumRam: 256 MiB",
		"network: ["+networks+"]", "uuid: "+networkUUID)
}

// A user network that is added to the configuration is plugged in. The guest's firmware doesn't release it again, so it
// stays until a reset. At the next start, the card is in the same port before the guest runs.
func TestAUserNetworkIsPlugged(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	const first, mac = "{type: user}", "02:00:00:00:00:02"
	const second = "{type: user, mac: '" + mac + "', net: 10.3.0.0/24}"
	v.networks(first)
	v.runs()
	now, later := v.forecast("network: ["+first+"]", "network: ["+first+", "+second+"]")
	require.Equal(t, [][]string{{"vm.network[1]"}, nil}, [][]string{now, later})
	v.networks(first + ", " + second)
	s := v.becomes("the card is plugged in", nicState(mac, status.NICPlugged, ""))
	require.Empty(t, s.RestartAwaitingChanges)
	ids := v.pluggedCards()
	require.Len(t, ids, 1)
	require.True(t, strings.HasPrefix(ids[0], "nic7-"), "the last port: %s", ids[0])
	_, err := v.stop()
	require.NoError(t, err)
	require.Contains(t, v.read("data", "cards.json"), mac)

	v.onPaused = func(context.Context, *prepare.VM) error {
		require.Equal(t, ids, v.pluggedCards(), "before the guest runs")
		return nil
	}
	v.log.forget()
	v.networks(first+", "+second, "resetCounter: 1")
	v.runs()
	s = v.becomes("the card is plugged in again", nicState(mac, status.NICPlugged, ""))
	require.Empty(t, s.Problems)
	require.Empty(t, s.RestartAwaitingChanges)
	v.networks(first, "resetCounter: 1")
	s = v.becomes("the guest is asked", nicState(mac, status.NICUnplugging, "waiting for the guest"))
	require.Empty(t, s.RestartAwaitingChanges)
	v.networks(first, "resetCounter: 2")
	v.becomes("a reset removes the card", func(s status.Status) bool { return len(s.NICs) == 0 })
	require.Empty(t, v.pluggedCards())
	require.Equal(t, "[]\n", v.read("data", "cards.json"))
	v.ends()
}

// The MAC address identifies a card. When the first of three networks is removed, the others stay where they are.
func TestTheFirstOfThreeNetworksIsRemoved(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	const first, second, third = "{type: user, mac: '02:00:00:00:00:01'}", "{type: user, mac: '02:00:00:00:00:02'}",
		"{type: user, mac: '02:00:00:00:00:03'}"
	v.networks(first)
	v.runs()
	v.networks(first + ", " + second + ", " + third)
	v.becomes("two cards are plugged in", func(s status.Status) bool {
		return nicState("02:00:00:00:00:02", status.NICPlugged, "")(s) &&
			nicState("02:00:00:00:00:03", status.NICPlugged, "")(s)
	})
	before := v.pluggedCards()
	v.networks(second + ", " + third)
	s := v.becomes("the first needs a restart", func(s status.Status) bool { return len(s.RestartAwaitingChanges) > 0 })
	require.Len(t, s.RestartAwaitingChanges, 1)
	require.Equal(t, "vm.network[0]", s.RestartAwaitingChanges[0].Path)
	require.Equal(t, "remove", s.RestartAwaitingChanges[0].Operation)
	require.Empty(t, s.Problems)
	require.Equal(t, before, v.pluggedCards())
	_, err := v.stop()
	require.NoError(t, err)
	v.onPaused = func(context.Context, *prepare.VM) error {
		require.ElementsMatch(t, before, v.pluggedCards(), "in the same ports")
		return nil
	}
	v.log.forget()
	v.runs()
	s = v.becomes("both are there", func(s status.Status) bool { return len(s.NICs) == 2 })
	require.Empty(t, s.Problems)
	v.ends()
}

// Networks that the running machine doesn't take need a restart.
func TestANetworkThatIsNotPluggedNeedsARestart(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.networks("")
	v.runs()
	for network, reason := range map[string]string{
		"{type: passt}":                    "a process",
		"{type: user, device: usb-net}":    "USB",
		"{type: user}":                     "the kernel doesn't let QEMU connect",
		"{type: user, hostLoopback: true}": "loopback",
	} {
		v.networks(network)
		s := v.becomes(reason, func(s status.Status) bool { return len(s.RestartAwaitingChanges) > 0 })
		require.Equal(t, "vm.network[0]", s.RestartAwaitingChanges[0].Path, reason)
		now, later := v.forecast("", "")
		require.Equal(t, [][]string{nil, {"vm.network[0]"}}, [][]string{now, later}, reason)
		require.Empty(t, s.NICs, reason)
		v.networks("")
		v.becomes("no change is pending", func(s status.Status) bool { return len(s.RestartAwaitingChanges) == 0 })
	}
	v.networks("{bridge: lo, mac: '02:00:00:00:00:02'}")
	s := v.becomes("no tap", nicState("02:00:00:00:00:02", status.NICFailed, "lo is not a bridge"))
	require.Equal(t, "vm.network[0]", s.Problems[0].Path)
	require.Empty(t, s.RestartAwaitingChanges)
	v.networks("")
	v.becomes("forgotten", func(s status.Status) bool { return len(s.NICs) == 0 && len(s.Problems) == 0 })
	v.ends()
}

// forecast returns the paths of the changes that the runner expects from another configuration: the current one with a
// text replaced.
func (v *vm) forecast(before, after string) (now, later []string) {
	v.t.Helper()
	f, err := v.client().Forecast(v.t.Context(), []byte(strings.Replace(v.read("config.yaml"), before, after, 1)))
	require.NoError(v.t, err)
	require.Empty(v.t, f.Fault)
	for _, c := range f.Now {
		now = append(now, c.Path)
	}
	for _, c := range f.Later {
		later = append(later, c.Path)
	}
	return now, later
}

// A machine without hotplug ports needs a restart for each added or removed network. A forecast contains the reason why
// the runner would refuse a configuration.
func TestForecastWithoutPorts(t *testing.T) {
	t.Parallel()
	v := newVM(t, "pc", "accelerator: tcg", "firmware: bios", "maximumRam: 64 MiB", "network: [{type: user}]")
	v.runs()
	const first = "network: [{type: user}"
	now, later := v.forecast(first, first+", {type: user, net: 10.3.0.0/24}")
	require.Equal(t, [][]string{nil, {"vm.network[1]"}}, [][]string{now, later})
	now, later = v.forecast(first, "network: [")
	require.Equal(t, [][]string{nil, {"vm.network[0]"}}, [][]string{now, later})
	f, err := v.client().Forecast(t.Context(), []byte(strings.Replace(v.read("config.yaml"), "64 MiB", "none", 1)))
	require.NoError(t, err)
	require.Contains(t, f.Fault, "vm.maximumRam")
	require.Contains(t, v.read("config.yaml"), "64 MiB")
	v.ends()
}

// The link of each network card can change while the machine is running, and is as configured from the start.
func TestLinks(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.networks("{type: user, link: down}")
	v.runs()
	v.logged("QMP reply", "command", "set_link")
	v.log.forget()
	v.networks("{type: user}")
	v.logged("QMP reply", "command", "set_link")
	s := v.becomes("up", func(s status.Status) bool { return s.Configuration.Applied >= 2 })
	require.Empty(t, s.RestartAwaitingChanges)
	require.Empty(t, s.Problems)
	v.ends()
}
